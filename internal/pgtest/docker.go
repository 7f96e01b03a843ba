package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"

	"github.com/weirhq/weir/internal/localpg"
)

const (
	// image is the newest major version that the private server would fetch, too.
	image = "postgres:17-alpine"
	// containerName makes all test processes of this engine share one container.
	containerName = "weir-pgtest"
	// password guards a server of test data on a port of this machine.
	password = "weir-pgtest"
)

// docker starts or joins the container. It goes without Ryuk, testcontainers'
// cleaner, which needs a goroutine for the life of the process, and each
// package's leak check would find that. The server stops itself instead, and
// the engine removes a stopped container.
func docker(ctx context.Context) (func(string) string, *pgx.Conn, error) {
	if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
		return nil, nil, fmt.Errorf("configure testcontainers: %w", err)
	}
	var last error
	for range 2 { // the container may stop itself just when we arrive
		endpoint, err := runContainer(ctx)
		if err != nil {
			last = err
			continue
		}
		address := func(database string) string {
			return "postgres://postgres:" + password + "@" + endpoint + "/" + database + "?sslmode=disable&connect_timeout=5"
		}
		admin, err := patientConnect(ctx, address("postgres"))
		if err != nil {
			last = err
			continue
		}
		if err := localpg.StopWhenIdle(ctx, address("postgres"), lingering); err != nil {
			last = errors.Join(err, admin.Close(ctx))
			continue
		}
		return address, admin, nil
	}
	return nil, nil, last
}

// runContainer returns host:port of the server. The provider is closed before
// it returns, so that no idle connection to the engine is left to a leak check.
func runContainer(ctx context.Context) (endpoint string, err error) {
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return "", fmt.Errorf("reach the Docker engine: %w", err)
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	c, err := provider.ReuseOrCreateContainer(ctx, testcontainers.ContainerRequest{
		Image:        image,
		Name:         containerName,
		ExposedPorts: []string{"5432/tcp"},
		Env:          map[string]string{"POSTGRES_PASSWORD": password, "POSTGRES_INITDB_ARGS": "--encoding=UTF8 --locale=C --no-sync"},
		Cmd: []string{
			"postgres", "-c", "max_connections=300", "-c", "fsync=off", "-c", "full_page_writes=off",
			"-c", "synchronous_commit=off", "-c", "autovacuum=off", "-c", "jit=off",
		},
		HostConfigModifier: func(h *container.HostConfig) {
			h.AutoRemove = true
			h.ShmSize = 256 << 20 // the engine's 64 MiB are too few for a parallel query
		},
	})
	if err != nil {
		return "", fmt.Errorf("run container %s: %w", containerName, err)
	}
	if !c.IsRunning() {
		if err := c.Start(ctx); err != nil {
			return "", fmt.Errorf("start container %s: %w", containerName, err)
		}
	}
	if endpoint, err = c.PortEndpoint(ctx, "5432/tcp", ""); err != nil {
		return "", fmt.Errorf("find port of container %s: %w", containerName, err)
	}
	return endpoint, nil
}

// patientConnect waits for the server in a fresh container. While the image
// initializes, its server does not listen on TCP, so the first connection is
// to the real one.
func patientConnect(ctx context.Context, address string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, address)
		if err == nil {
			return conn, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to the container's server: %w", err)
		}
	}
}

// dockerAnswers looks for an engine at DOCKER_HOST or where engines usually
// are, for at most a second: testcontainers itself tries far longer.
func dockerAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	places := []string{"unix:///var/run/docker.sock"}
	if home, err := os.UserHomeDir(); err == nil {
		places = append(places, "unix://"+filepath.Join(home, ".docker/run/docker.sock"))
	}
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		places = []string{host}
	}
	for _, place := range places {
		if u, err := url.Parse(place); err == nil && engineAnswers(ctx, u) {
			return true
		}
	}
	return false
}

// engineAnswers takes any HTTP answer for one: an engine behind TLS says 400.
func engineAnswers(ctx context.Context, u *url.URL) bool {
	network, address := u.Scheme, cmp.Or(u.Host, u.Path)
	if network == "http" || network == "https" {
		network = "tcp"
	}
	var dialer net.Dialer
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil
}
