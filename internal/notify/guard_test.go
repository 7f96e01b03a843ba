package notify

import (
	"net/netip"
	"testing"
)

func TestPublic(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"8.8.8.8": true, "93.184.216.34": true, "172.15.255.255": true, "100.128.0.1": true, "2606:4700::1111": true, "::ffff:8.8.8.8": true,
		"127.0.0.1": false, "127.8.8.8": false, "0.0.0.0": false, "0.1.2.3": false, "10.1.2.3": false, "172.16.0.1": false,
		"192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "100.100.100.200": false, "192.0.0.192": false,
		"198.18.0.1": false, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false, "192.0.2.1": false,
		"::": false, "::1": false, "fe80::1": false, "fe80::1%eth0": false, "fd00:ec2::254": false, "fc00::1": false, "fec0::1": false,
		"ff02::1": false, "2001:db8::1": false, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:100.64.0.1": false, "::ffff:198.18.0.1": false,
		"::127.0.0.1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false, "2002:7f00:1::": false, "2001:0:1::1": false,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("public(%s) = %v", address, got)
		}
	}
}

// TestDialsAreWatched: what a name resolves to is judged at the dial, whatever
// it resolved to before.
func TestDialsAreWatched(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{"8.8.8.8:443": true, "[2606:4700::1111]:443": true, "127.0.0.1:443": false, "[::1]:443": false, "nonsense": false} {
		if err := publicOnly("tcp", address, nil); (err == nil) != want {
			t.Errorf("dial of %s: %v", address, err)
		}
	}
}
