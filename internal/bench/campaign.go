package bench

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/cloudapi"
	"github.com/weirhq/weir/internal/store"
)

const (
	account = "102290129340398"
	token   = "bench"
	batch   = 500
)

var template = engine.Template{
	Name: "order_update", Language: "en_US", Category: engine.Utility,
	Params: []engine.Param{{Target: "body.1", Column: 0}, {Target: "body.2", Column: 1}},
}

// people is an audience whose phones come in no order.
func people(n int) store.ImportSource {
	return store.ImportSource{
		File: "bench.csv", Size: int64(n), Head: []byte("head"), Sum: func() []byte { return []byte("sum") },
		Rows: func(yield func(store.ImportRow, error) bool) {
			values := make([]string, 2)
			for i := range int64(n) {
				values[0], values[1] = "Maria "+strconv.FormatInt(i, 10), "A-"+strconv.FormatInt(i, 10)
				if !yield(store.ImportRow{Line: i + 2, Phone: phone(i), Values: values}, nil) {
					return
				}
			}
		},
	}
}

// phone is a different one for each i below ten thousand millions: the factor
// and the modulus have no common divisor.
func phone(i int64) string { return fmt.Sprintf("+55%011d", 10_000_000_000+i*7_368_787%9_999_999_967) }

// numbers adds n numbers with this limit. The server knows no others.
func (b *Bench) numbers(ctx context.Context, n int, limit float64) ([]store.CampaignNumber, error) {
	if err := b.exec(ctx, `TRUNCATE campaigns, numbers, recipients CASCADE`); err != nil {
		return nil, err
	}
	numbers := make([]store.CampaignNumber, n)
	for i := range numbers {
		numbers[i].ID = strconv.Itoa(1001 + i)
		info := store.NumberInfo{Number: engine.Number{ID: numbers[i].ID, WABA: account, Limit: limit, Burst: 1, Enabled: true}}
		if err := b.AddNumber(ctx, info); err != nil {
			return nil, err
		}
	}
	return numbers, nil
}

// campaign imports an audience and starts it.
func (b *Bench) campaign(ctx context.Context, name string, n int, numbers []store.CampaignNumber) (int64, error) {
	id, err := b.CreateCampaign(ctx, store.CampaignSpec{Name: name, Template: template, Columns: []string{"name", "order"}, Numbers: numbers})
	if err != nil {
		return 0, err
	}
	if _, err := b.Import(ctx, id, people(n), store.ImportOptions{}); err != nil {
		return 0, err
	}
	_, err = b.StartCampaign(ctx, id, true)
	return id, err
}

// client calls the sink as it would call Meta.
func (b *Bench) client(ctx context.Context, s *sink) (*cloudapi.Client, error) {
	key, err := b.InstanceKey(ctx)
	if err != nil {
		return nil, err
	}
	return cloudapi.New(cloudapi.Options{
		BaseURL: s.url(), CallbackKey: key, Logger: slog.New(slog.DiscardHandler),
		Token: func(context.Context, string) (string, error) { return token, nil },
	})
}
