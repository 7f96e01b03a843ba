package sim

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Whatever is sent, there is one answer in JSON and one line in the ledger,
// and they agree.
func FuzzSend(f *testing.F) {
	for _, x := range mediaAndButtons() {
		f.Add(msg(x.body, ""))
	}
	for _, b := range []string{
		"", "null", "[]", `"x"`, `{"template":null}`, campaign(1), msg("[]", ""), msg(`{"components":[{"type":"BUTTON"}]}`, ""),
		msg(`{"name":"buttons","language":{"code":"en_US"},"components":[{"type":"Button","sub_type":"URL","index":null,"parameters":[null]}]}`, ""),
		msg(`{"name":"image","language":{"code":"en_US"},"components":[{"type":"HEADER","parameters":[{"type":"image"}]},null]}`, ""),
		hello("+", "\x00\xff"), hello("99999999999999999999", ""), hello("+١٢٣٤٥٦٧٨", ""),
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := mustNew(t, Options{Numbers: []Number{{ID: number}}, Templates: catalog})
		rec := post(s.Handler(), path, body)
		if !json.Valid(rec.Body.Bytes()) {
			t.Fatalf("answer %q", rec.Body)
		}
		l := s.Ledger()
		if len(l) != 1 || (rec.Code == http.StatusOK) != (l[0].WAMID != "") || l[0].HTTP != rec.Code {
			t.Fatalf("HTTP %d, ledger %+v", rec.Code, l)
		}
	})
}

// The escaped form means what it was made of, and is ASCII.
func TestAppendStringIsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "s")
		raw := appendString(nil, want)
		var got string
		if err := json.Unmarshal(raw, &got); err != nil || got != strings.ToValidUTF8(want, "\ufffd") {
			t.Fatalf("%q became %q: %v", want, raw, err)
		}
		for _, c := range raw {
			if c >= utf8.RuneSelf {
				t.Fatalf("%q is not ASCII", raw)
			}
		}
	})
}
