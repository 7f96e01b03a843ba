package cloudapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/weirhq/weir/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the tests send. The phone, the token and the message id must never turn
// up in a title, an error, a metric or a log.
const (
	testNumber  = "106540352242922"
	testPhone   = "+5511987654321"
	testToken   = "EAAGtesttokenthatisverysecret"
	testMessage = "wamid.HBgNNTUxMTk4NzY1NDMyMRUCABEYEjA"
)

// nobody listens there: a port that was just given back may be another test's.
const nobody = "http://127.0.0.1:1"

var testKey = []byte("0123456789abcdef0123456789abcdef")

const acceptedBody = `{"messaging_product":"whatsapp","contacts":[{"input":"+5511987654321","wa_id":"5511987654321"}],` +
	`"messages":[{"id":"` + testMessage + `","message_status":"accepted"}]}`

func testTemplate() *engine.Template {
	return &engine.Template{
		Name: "order_update", Language: "en_US", Category: engine.Utility,
		Params: []engine.Param{{Target: "body.1", Column: 0}, {Target: "body.2", Column: 1}},
	}
}

func testSend() engine.Message {
	return engine.Message{
		Number: testNumber, Recipient: 42, Claim: 3, To: testPhone,
		Template: testTemplate(), Values: []string{"Ana", "A-77"},
	}
}

func fixedToken(context.Context, string) (string, error) { return testToken, nil }

// newTestClient makes a client for a server; change edits its options.
func newTestClient(t testing.TB, url string, change func(*Options)) *Client {
	t.Helper()
	o := Options{BaseURL: url, Token: fixedToken, CallbackKey: testKey, Registerer: prometheus.NewRegistry()}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}
