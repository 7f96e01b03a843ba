package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

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
	t := &tokens{graph: g, db: db, read: map[string]token{}}
	return cloudapi.New(cloudapi.Options{
		BaseURL: g.GraphURL, Version: g.GraphVersion, Plaintext: g.GraphPlaintext,
		Token: t.token, Renew: t.renew, CallbackKey: key, Registerer: reg, Logger: log,
	})
}

// tokenFor is how long a token is kept in memory: a number's new token file
// is taken up within it.
const tokenFor = 10 * time.Second

// tokens finds the access token of a number: its own file, else the one for
// all. What it has read it keeps for a while, and reads again at once when Meta
// has refused it.
type tokens struct {
	graph graph
	db    *store.Store

	mu   sync.Mutex
	read map[string]token // by number
}

type token struct {
	text string
	at   time.Time
}

func (t *tokens) token(ctx context.Context, number string) (string, error) {
	t.mu.Lock()
	kept, ok := t.read[number]
	t.mu.Unlock()
	if ok && time.Since(kept.at) < tokenFor {
		return kept.text, nil
	}
	fresh, err := t.load(ctx, number)
	if err != nil && ok && !errors.Is(err, cloudapi.ErrNoToken) {
		return kept.text, nil // a database or a file that is away for a moment stops nothing
	}
	return fresh, err
}

func (t *tokens) renew(ctx context.Context, number, _ string) (string, error) {
	return t.load(ctx, number)
}

// load reads a number's token. A number that cannot be looked up gets none:
// the token for all may not be its own.
func (t *tokens) load(ctx context.Context, number string) (string, error) {
	file := t.graph.AccessTokenFile
	n, err := t.db.FindNumber(ctx, number)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", fmt.Errorf("find the number's token file: %w", err)
	}
	if n.TokenFile != "" {
		file = n.TokenFile
	}
	text := t.graph.AccessToken
	if file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read access token: %w", err)
		}
		text = string(raw)
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", cloudapi.ErrNoToken
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read[number] = token{text, time.Now()}
	return text, nil
}
