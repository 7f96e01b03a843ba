package sim

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHandshake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		rx := &receiver{token: "right"}
		up := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if tries.Add(1) < 4 {
				http.Error(rw, "starting", http.StatusBadGateway)
				return
			}
			rx.ServeHTTP(rw, r)
		})
		s := mustNew(t, Options{WebhookURL: "http://receiver/hook?a=b", VerifyToken: "right", Transport: inProcess{up}})
		start(t, s)
		post(s.Handler(), path, hello(person(1), "a"))
		time.Sleep(10 * time.Second)
		if got := len(rx.deliveries()); got != 2 || tries.Load() != 6 {
			t.Errorf("%d webhooks after %d requests, want 2 after 6", got, tries.Load())
		}
		wrong := mustNew(t, Options{WebhookURL: "http://receiver/hook", VerifyToken: "wrong", Transport: inProcess{rx}})
		if err := wrong.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "verify token") {
			t.Errorf("Run with a wrong token: %v", err)
		}
		if err := wrong.Run(t.Context()); err == nil {
			t.Error("a second Run must fail")
		}
	})
}

// The same seed, people and callbacks give the same fates, in whatever order
// and however fast they are sent.
func TestFateFollowsTheSeed(t *testing.T) {
	t.Parallel()
	fates := func(seed uint64, backwards bool) map[string]string {
		var out map[string]string
		synctest.Test(t, func(t *testing.T) {
			rx := &receiver{}
			s := mustNew(t, Options{
				Seed: seed, WebhookURL: "http://receiver/", Transport: inProcess{rx}, ReadShare: 0.5,
				SentOnlyShare: 0.2, ReorderShare: 0.3, Failures: []Failure{{131026, 0.2}},
				Sent: Spread{Jitter: time.Minute}, Delivered: Spread{Jitter: time.Minute},
			})
			stop := start(t, s)
			for i := range 60 {
				if backwards {
					i = 59 - i
				}
				post(s.Handler(), path, hello(person(i), fmt.Sprint(i)))
			}
			time.Sleep(time.Hour)
			stop()
			out = byCallback(rx.statuses(t))
		})
		return out
	}
	first := fates(1, false)
	if diff := cmp.Diff(first, fates(1, true)); diff != "" {
		t.Errorf("order changed fates: %s", diff)
	}
	if cmp.Equal(first, fates(2, false)) {
		t.Error("another seed gave the same fates")
	}
}
