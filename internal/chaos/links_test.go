//go:build !race

package chaos

import (
	"context"
	"fmt"
	"strings"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// link is one way between two programs, through a proxy that can cut it.
type link struct {
	proxy *toxiproxy.Proxy
	in    []string // toxics in force
}

func newToxiproxy() *toxiproxy.ApiServer {
	return toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
}

func newLink(server *toxiproxy.ApiServer, name, upstream string) (*link, error) {
	l := &link{proxy: toxiproxy.NewProxy(server, name, "127.0.0.1:0", upstream)}
	if err := l.proxy.Start(); err != nil {
		return nil, fmt.Errorf("start link %s: %w", name, err)
	}
	return l, nil
}

func (l *link) addr() string { return l.proxy.Listen }

// cut drops every byte both ways from now on, in silence: connections stand,
// new ones too, and nothing comes back. What was dropped stays lost.
func (l *link) cut() error {
	return l.add(`{"name":"cut_up","type":"timeout","stream":"upstream","attributes":{"timeout":0}}`,
		`{"name":"cut_down","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
}

// slow delays every byte, in ms.
func (l *link) slow(stream string, latency, jitter int) error {
	return l.add(fmt.Sprintf(`{"name":"slow_%[1]s","type":"latency","stream":"%[1]s","attributes":{"latency":%[2]d,"jitter":%[3]d}}`,
		stream, latency, jitter))
}

func (l *link) add(toxics ...string) error {
	for _, t := range toxics {
		added, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(t))
		if err != nil {
			return fmt.Errorf("add toxic to link %s: %w", l.proxy.Name, err)
		}
		l.in = append(l.in, added.Name)
	}
	return nil
}

// heal takes everything off the link. Connections that were cut are closed.
func (l *link) heal(ctx context.Context) error {
	for len(l.in) > 0 {
		if err := l.proxy.Toxics.RemoveToxic(ctx, l.in[0]); err != nil {
			return fmt.Errorf("heal link %s: %w", l.proxy.Name, err)
		}
		l.in = l.in[1:]
	}
	return nil
}

// repoint leads the link elsewhere; connections on it break.
func (l *link) repoint(upstream string) error {
	err := l.proxy.Update(&toxiproxy.Proxy{Listen: l.proxy.Listen, Upstream: upstream, Enabled: true})
	if err != nil {
		return fmt.Errorf("repoint link %s: %w", l.proxy.Name, err)
	}
	return nil
}

func (l *link) close() { l.proxy.Stop() }
