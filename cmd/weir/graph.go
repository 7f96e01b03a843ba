package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/internal/cloudapi"
	"github.com/weirhq/weir/internal/store"
)

// graph are the flags of every command that calls Meta.
type graph struct {
	GraphURL        string `env:"WEIR_GRAPH_URL" default:"https://graph.facebook.com" placeholder:"URL" help:"The Cloud API: Meta's, or a simulator's."`
	GraphVersion    string `env:"WEIR_GRAPH_VERSION" default:"v25.0" help:"Version of the Graph API."`
	GraphPlaintext  bool   `env:"WEIR_GRAPH_PLAINTEXT" help:"Allow http to another machine, for a simulator in the next container."`
	AccessToken     string `env:"WEIR_ACCESS_TOKEN" help:"Token of the system user (better in the environment or a file)."`
	AccessTokenFile string `env:"WEIR_ACCESS_TOKEN_FILE" type:"path" help:"File that holds the token; read again when Meta refuses it."`
}

func (g graph) client(ctx context.Context, db *store.Store, log *slog.Logger, reg prometheus.Registerer) (*cloudapi.Client, error) {
	key, err := db.InstanceKey(ctx)
	if err != nil {
		return nil, err
	}
	t := &tokens{graph: g, db: db, read: map[string]string{}}
	return cloudapi.New(cloudapi.Options{
		BaseURL: g.GraphURL, Version: g.GraphVersion, Plaintext: g.GraphPlaintext,
		Token: t.token, Renew: t.renew, CallbackKey: key, Registerer: reg, Logger: log,
	})
}

// tokens finds the access token of a number: its own file, else the one for
// all. A file is read once, and again when Meta has refused what it held.
type tokens struct {
	graph graph
	db    *store.Store

	mu   sync.Mutex
	read map[string]string // number → token
}

func (t *tokens) token(ctx context.Context, number string) (string, error) {
	t.mu.Lock()
	token, ok := t.read[number]
	t.mu.Unlock()
	if ok {
		return token, nil
	}
	return t.load(ctx, number)
}

func (t *tokens) renew(ctx context.Context, number, _ string) (string, error) {
	return t.load(ctx, number)
}

func (t *tokens) load(ctx context.Context, number string) (string, error) {
	file := t.graph.AccessTokenFile
	if n, err := t.db.FindNumber(ctx, number); err == nil && n.TokenFile != "" {
		file = n.TokenFile
	}
	token := t.graph.AccessToken
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read access token: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	if token == "" {
		return "", cloudapi.ErrNoToken
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read[number] = token
	return token, nil
}
