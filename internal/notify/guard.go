package notify

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
)

// ErrPrivate is wrapped by the errors about an address that Options.Private
// would allow: metadata services and databases listen on such.
var ErrPrivate = errors.New("receivers in one's own network must be allowed")

// ports a public receiver may listen on.
var ports = []string{"", "443", "8443"}

func checkURL(u *url.URL, private bool) error {
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("the address must begin with https://")
	case private:
		return nil
	case u.Scheme != "https":
		return fmt.Errorf("the address must begin with https://: %w", ErrPrivate)
	case !slices.Contains(ports, u.Port()):
		return fmt.Errorf("port %s is neither 443 nor 8443: %w", u.Port(), ErrPrivate)
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !public(ip) {
		return fmt.Errorf("not a public address: %w", ErrPrivate)
	}
	return nil
}

// publicOnly is a net.Dialer's Control: it sees the address that a name has
// resolved to, just before the connection is made.
func publicOnly(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !public(at.Addr()) {
		return fmt.Errorf("not a public address: %w", ErrPrivate)
	}
	return nil
}

// reserved are the ranges that are not one of netip's own, from IANA's
// registries of special-purpose addresses. The last five hold an IPv4 address
// inside, which a gateway on the way may unpack.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // carriers' NAT, and some clouds' metadata
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("2002::/16"),
}

// public reports whether ip is an address of the open internet.
func public(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	return !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(ip) })
}

func tlsConfig(roots *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
