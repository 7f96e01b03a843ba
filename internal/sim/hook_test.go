package sim

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
)

// hook is a webhook body as a receiver would decode it.
type hook struct {
	Object string
	Entry  []struct {
		ID      string
		Changes []struct {
			Field string
			Value struct {
				Product  string `json:"messaging_product"`
				Metadata struct {
					Display string `json:"display_phone_number"`
					ID      string `json:"phone_number_id"`
				}
				Contacts []struct {
					WaID    string `json:"wa_id"`
					Profile struct{ Name string }
				}
				Statuses []hookStatus
			}
		}
	}
}

type hookStatus struct {
	ID, Status, Timestamp string
	Recipient             string `json:"recipient_id"`
	Callback              string `json:"biz_opaque_callback_data"`
	Pricing               *struct{ Category, Type string }
	Errors                []struct {
		Code  int
		Title string
		Href  string
		Data  struct{ Details string } `json:"error_data"`
	}
}

func (c *receiver) hooks(t *testing.T) []hook {
	t.Helper()
	got := c.deliveries()
	list := make([]hook, len(got))
	for i, d := range got {
		if err := json.Unmarshal(d.body, &list[i]); err != nil {
			t.Fatalf("%v in %s", err, d.body)
		}
	}
	return list
}

// statuses flattens everything received, in order.
func (c *receiver) statuses(t *testing.T) []hookStatus {
	t.Helper()
	var all []hookStatus
	for _, h := range c.hooks(t) {
		for _, e := range h.Entry {
			for _, ch := range e.Changes {
				all = append(all, ch.Value.Statuses...)
			}
		}
	}
	return all
}

// words groups the statuses by callback id: "sent delivered read".
func byCallback(list []hookStatus) map[string]string {
	out := map[string]string{}
	for _, s := range list {
		out[s.Callback] = strings.TrimSpace(out[s.Callback] + " " + s.Status)
	}
	return out
}

// bubble runs fn with a platform that sends webhooks to a receiver in process.
func bubble(t *testing.T, o Options, fn func(*testing.T, *Sim, *receiver)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rx := &receiver{}
		o.WebhookURL, o.AppSecret, o.Transport = "http://receiver/hook", "secret", inProcess{rx}
		s := mustNew(t, o)
		stop := start(t, s)
		fn(t, s, rx)
		stop()
	})
}
