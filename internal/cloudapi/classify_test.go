package cloudapi

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/engine"
)

// exchange is one answer of the messages endpoint and what it comes to.
type exchange struct {
	name, want string
	status     int
	header     http.Header
	body       []byte
}

func exchanges(t testing.TB) []exchange {
	t.Helper()
	files, err := filepath.Glob("testdata/exchanges/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no exchanges", err)
	}
	var all []exchange
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		group := strings.TrimSuffix(filepath.Base(file), ".txtar")
		for i := 0; i+1 < len(archive.Files); i += 2 {
			all = append(all, readExchange(t, group, archive.Files[i], archive.Files[i+1]))
		}
	}
	return all
}

func readExchange(t testing.TB, group string, response, want txtar.File) exchange {
	t.Helper()
	name, ok := strings.CutSuffix(response.Name, "/response")
	if !ok || want.Name != name+"/want" {
		t.Fatalf("%s: %q and %q are no pair", group, response.Name, want.Name)
	}
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(response.Data)), nil)
	if err != nil {
		t.Fatalf("%s/%s: %v", group, name, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return exchange{
		name: group + "/" + name, want: strings.TrimSpace(string(want.Data)),
		status: res.StatusCode, header: res.Header, body: body,
	}
}

// said is an answer as testdata writes it.
func said(a engine.Answer) string {
	if a.Action == engine.Accept {
		return "accept" + flags("id", a.MessageID != "", "held", a.Held)
	}
	scope := [...]string{"recipient", "pair", "campaign", "template", "number", "waba", "app"}[a.Scope]
	s := a.Action.String() + " " + scope
	if a.Code != 0 || a.Title == Title(0) {
		s += fmt.Sprintf(" code=%d", a.Code)
	}
	if a.After != 0 {
		s += " after=" + a.After.String()
	}
	if a.Spare != engine.SpareNobody {
		s += " spare=" + a.Spare.String()
	}
	return s + flags("throttled", a.Throttled, "suspect", a.Suspect, "once", a.Once, "local", a.Local)
}

func flags(pairs ...any) (s string) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1].(bool) {
			s += " " + pairs[i].(string)
		}
	}
	return s
}

func TestExchanges(t *testing.T) {
	t.Parallel()
	for _, x := range exchanges(t) {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range x.header {
					w.Header()[k] = v
				}
				w.WriteHeader(x.status)
				_, _ = w.Write(x.body)
			})
			a := newTestClient(t, s.URL, nil).Send(t.Context(), testSend())
			if got := said(a); got != x.want {
				t.Errorf("got  %s\nwant %s\n(%s)", got, x.want, a.Title)
			}
			if a.Action != engine.Accept && a.Title == "" {
				t.Error("no title")
			}
			noSecrets(t, a.Title)
			if diff := cmp.Diff(a, Classify(x.status, x.header, x.body)); diff != "" {
				t.Errorf("Classify alone: %s", diff)
			}
		})
	}
}

func TestClassifyCodeOfAFailedWebhook(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]string{
		131049: "reschedule recipient code=131049 after=24h0m0s spare=marketing once",
		131000: "reschedule recipient code=131000 after=1m0s", // the message is known to have failed
		1:      "reschedule recipient code=1 after=1m0s suspect",
		130429: "reschedule recipient code=130429 after=1m0s", // no pace is known to be too high now
		131026: "fail recipient code=131026 spare=absent",
		132015: "stop_campaign template code=132015",
		131042: "stop_number waba code=131042",
		999999: "fail recipient code=999999 suspect",
	} {
		if got := said(ClassifyCode(code)); got != want {
			t.Errorf("%d: got %s, want %s", code, got, want)
		}
	}
	if Advice(190) == "" || Advice(999999) != "" || Title(999999) != "" {
		t.Error("advice or title of 190 or 999999")
	}
}

func TestRegainIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := http.Header{}
		h.Set("Retry-After", rapid.OneOf(rapid.StringMatching(`-?[0-9]{0,25}`), rapid.String()).Draw(t, "retry"))
		h.Set("X-Business-Use-Case-Usage", `{"1":[{"estimated_time_to_regain_access":`+rapid.StringMatching(`-?[0-9]{1,25}`).Draw(t, "minutes")+`}]}`)
		if d := regain(h); d < 0 || d > time.Hour {
			t.Fatal(d)
		}
	})
}

func TestScrub(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"(#131026) Message undeliverable":               "Message undeliverable",
		"no user at +55 (11) 98765-4321 today":          "no user at*today",
		"no user at 5511987654321":                      "no user at*",
		"5.5.1.1.9.8.7":                                 "*",
		"id wamid.HBgNNTUx= failed":                     "id * failed",
		"token " + strings.Repeat("x", 41) + " refused": "token * refused",
		"code 131026, HTTP 400":                         "code 131026, HTTP 400",
		"a\x00b\nc\xffd":                                "a b c d",
		strings.Repeat("é ", 100):                       strings.TrimRight(strings.Repeat("é ", 40), ""),
	} {
		if got := scrub(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// looksLikePhone is seven digits with nothing but marks between them.
var looksLikePhone = regexp.MustCompile(`\d([^\p{L}\d]*\d){6}`)

func FuzzClassify(f *testing.F) {
	for _, x := range exchanges(f) {
		f.Add(x.status, x.body)
	}
	f.Add(400, []byte(`{"error":{"code":"131026","message":"to +55 11 98765-4321"}}`))
	f.Add(400, []byte(`{"error":{"code":9.9e9,"error_data":"text"}}`))
	f.Add(200, []byte(`{"messages":[{"id":"\u0000"}]}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		a := Classify(status, http.Header{}, body)
		if (a.Action == engine.Accept) != (a.MessageID != "") {
			t.Errorf("%v with message id %q", a.Action, a.MessageID)
		}
		if a.Action == engine.Release && (status < 300 || status > 399 || !a.Local) {
			t.Error("an answered call is no release, unless it was sent elsewhere")
		}
		if looksLikePhone.MatchString(a.Title) || len(a.Title) > maxTitle || strings.ContainsRune(a.Title, 0) {
			t.Errorf("title %q", a.Title)
		}
		if a.Action != engine.Accept && a.Title == "" {
			t.Error("no title")
		}
	})
}
