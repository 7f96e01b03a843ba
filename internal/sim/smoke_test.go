package sim

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rx := &receiver{token: "v"}
		s := mustNew(t, Options{WebhookURL: "http://rx/hook", VerifyToken: "v", AppSecret: "k", Transport: inProcess{rx}, ReadShare: 1})
		start(t, s)
		rec := post(s.Handler(), path, hello("+16505551234", "w1.1.2.ab"))
		t.Log(rec.Code, rec.Body.String(), rec.Header())
		time.Sleep(time.Minute)
		for _, b := range rx.bodies {
			t.Log(string(b))
		}
		t.Logf("%+v", s.Ledger())
		t.Logf("%+v", s.Summary(SummaryQuery{}))
		t.Log(get(s.Handler(), "/sim/ledger").Body.String())
		t.Log(get(s.Handler(), "/v25.0/123?fields=throughput{level},status").Body.String())
	})
}
