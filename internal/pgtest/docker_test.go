package pgtest_test

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/internal/localpg"
)

// engine speaks as much of the Docker Engine API as starting one container
// takes. The container is a private server on a loopback port.
type engine struct {
	port string

	mu      sync.Mutex
	created *createRequest
	creates int
	running bool
	unknown []string
}

type createRequest struct {
	Name       string `json:"-"`
	Image      string
	Env, Cmd   []string
	HostConfig struct{ AutoRemove bool }
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/v1."); ok { // the API's version
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	status, answer := e.answer(r, path)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Api-Version", "1.47")
	w.WriteHeader(status)
	if answer != "" && r.Method != http.MethodHead {
		_, _ = w.Write([]byte(answer)) // the client notices
	}
}

func (e *engine) answer(r *http.Request, path string) (int, string) {
	switch r.Method + " " + path {
	case "GET /_ping", "HEAD /_ping":
		return http.StatusOK, `"OK"`
	case "GET /info":
		return http.StatusOK, `{"ID": "fake", "ServerVersion": "28.0", "OperatingSystem": "Linux"}`
	case "GET /networks":
		return http.StatusOK, `[{"Name": "bridge", "Id": "n1"}]`
	case "GET /networks/bridge":
		return http.StatusOK, `{"Name": "bridge", "Id": "n1"}`
	case "GET /images/postgres:17-alpine/json":
		return http.StatusOK, `{"Id": "sha256:1"}`
	case "GET /containers/json":
		if e.created == nil {
			return http.StatusOK, `[]`
		}
		return http.StatusOK, `[{"Id": "c10000000000", "Names": ["/` + e.created.Name + `"], "State": "running"}]`
	case "POST /containers/create":
		e.creates++
		e.created = &createRequest{}
		if err := json.NewDecoder(r.Body).Decode(e.created); err != nil {
			return http.StatusBadRequest, `{"message": "bad request"}`
		}
		e.created.Name = r.URL.Query().Get("name")
		return http.StatusCreated, `{"Id": "c10000000000", "Warnings": []}`
	case "POST /containers/c10000000000/start":
		e.running = true
		return http.StatusNoContent, ""
	case "GET /containers/c10000000000/json":
		return http.StatusOK, e.inspect()
	}
	e.unknown = append(e.unknown, r.Method+" "+path)
	return http.StatusNotFound, `{"message": "not in this engine"}`
}

func (e *engine) inspect() string {
	state, ports := `"created"`, `{}`
	if e.running {
		state, ports = `"running"`, `{"5432/tcp": [{"HostIp": "127.0.0.1", "HostPort": "`+e.port+`"}]}`
	}
	return `{"Id": "c10000000000", "Name": "/weir-pgtest", "HostConfig": {"NetworkMode": "bridge"}, "State": {"Status": ` + state + `},
		"Config": {"ExposedPorts": {"5432/tcp": {}}}, "NetworkSettings": {"Ports": ` + ports + `}}`
}

// tempDir is open to the server's user, which t.TempDir is not when we are root.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pgtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a leftover of a test, at worst
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// startContained starts the server that the engine says is in a container, and
// returns its port.
func startContained(t *testing.T) string {
	t.Helper()
	s, err := localpg.Start(t.Context(), localpg.Options{Dir: filepath.Join(tempDir(t), "pg"), Test: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), `CREATE ROLE postgres SUPERUSER LOGIN PASSWORD 'weir-pgtest'`)
	u, parseErr := url.Parse(s.LoopbackURL("postgres"))
	if err := errors.Join(err, parseErr, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// serve returns the address of an HTTP server that ends with the test.
func serve(t *testing.T, network, address string, h http.Handler) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	ended := make(chan error)
	go func() { ended <- srv.Serve(l) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return l.Addr().String()
}

func TestServerInDocker(t *testing.T) {
	t.Parallel()
	e := &engine{port: startContained(t)}
	host := "DOCKER_HOST=unix://" + serve(t, "unix", filepath.Join(tempDir(t), "docker.sock"), e)
	// Where the tests themselves run in a container, its gateway is not ours.
	const address = "TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1"
	anotherProcess(t, host, address)
	anotherProcess(t, host, address) // joins the container of the first
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.creates != 1 || !e.running || len(e.unknown) > 0 {
		t.Fatalf("%d containers created, running %t, calls beyond this engine: %v", e.creates, e.running, e.unknown)
	}
	if e.created.Image != "postgres:17-alpine" || e.created.Name != "weir-pgtest" || !e.created.HostConfig.AutoRemove {
		t.Errorf("created %+v", *e.created)
	}
	if !slices.Contains(e.created.Env, "POSTGRES_PASSWORD=weir-pgtest") || !slices.Contains(e.created.Cmd, "fsync=off") {
		t.Errorf("created with environment %v, command %v", e.created.Env, e.created.Cmd)
	}
}

func TestBrokenDockerFallsBack(t *testing.T) {
	t.Parallel()
	anotherProcess(t, "DOCKER_HOST=tcp://"+serve(t, "tcp", "127.0.0.1:0", http.NotFoundHandler()))
}
