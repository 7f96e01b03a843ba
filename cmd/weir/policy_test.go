package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

func TestPolicyInWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		spec store.CampaignSpec
		want []string
	}{
		{
			store.CampaignSpec{Name: "c", OnUnknown: engine.UnknownFails, Retry: engine.Retry{MaxAttempts: 5, Jitter: engine.FullJitter}},
			[]string{
				"attempts   5 at most, then dead", "full jitter, never over 5m0s: 0s–1s, 0s–2s, 0s–4s, 0s–8s\n", "fail: dead (unknown_outcome) after 30m0s", "expires    never",
			},
		},
		{
			store.CampaignSpec{
				Name: "c", OnUnknown: engine.UnknownResends, ExpireAt: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
				Retry: engine.Retry{MaxAttempts: 9, Jitter: engine.DecorrelatedJitter},
			},
			[]string{"decorrelated jitter, never over 5m0s: 1s–3s, 1s–9s, 1s–27s, 1s–1m21s, 1s–4m3s, 1s–5m0s, …\n", "it may arrive twice", "at 2030-01-02T03:04:05Z"},
		},
		{
			store.CampaignSpec{Name: "c", OnUnknown: engine.UnknownHolds, Retry: engine.Retry{MaxAttempts: 1, Jitter: engine.FullJitter}},
			[]string{"there is no second attempt", "waits for a webhook or for you"},
		},
		{
			store.CampaignSpec{
				Name: "c", OnUnknown: engine.UnknownHolds, Retry: engine.Retry{MaxAttempts: 3, Jitter: engine.FullJitter},
				Numbers: []store.CampaignNumber{{ID: "1"}, {ID: "3", Fallback: true}, {ID: "2", Fallback: true}}, Fallback: store.Fallback{Wait: time.Minute, After: 2},
			},
			[]string{"fallback   2, 3 once no primary has been able to send for 1m0s, until one is; and in any case whom 2 attempts did not reach\n"},
		},
	} {
		var out bytes.Buffer
		if err := policyOf(store.Campaign{CampaignSpec: tt.spec}, engine.Policy{}, 30*time.Minute).print(&out); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in:\n%s", want, out.String())
			}
		}
		if found := regexp.MustCompile(`%!|0x`).FindString(out.String()); found != "" {
			t.Errorf("%q in:\n%s", found, out.String())
		}
	}
}
