package audience

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// FuzzContacts feeds any bytes: no panic, an end, numbers in E.164, rows in order, none twice, none invented.
func FuzzContacts(f *testing.F) {
	for _, seed := range []string{
		"", "phone\n", "phone\n+4915112345678\n", "\xef\xbb\xbfphone;name\r\n015112345678;\"A;b\"\r\n",
		"\xff\xfep\x00h\x00o\x00n\x00e\x00\n\x001\x00", "sep=|\rphone|x\r\"1\"\"|2\r", "phone,name\n4.479E+11,a\n\"",
		"phone,line,reason,hint\n'+49151,7,too few columns (1 of 2),x\n", "phone\n\x00\n\xe9\n", "phone,,\n1,2,3,4\n,\n",
	} {
		f.Add([]byte(seed), "DE")
	}
	f.Fuzz(func(t *testing.T, data []byte, country string) {
		opts := Options{DefaultCountry: country, MaxRowBytes: 300, MaxFieldBytes: 200, MaxColumns: 20, Workers: 2}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		whole := read(strings.NewReader(string(data)), opts)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20+400*uint64(len(data)) {
			t.Errorf("%d bytes allocated for %d", used, len(data))
		}
		cut := read(iotest.OneByteReader(strings.NewReader(string(data))), opts)
		if fmt.Sprint(whole.end) != fmt.Sprint(cut.end) || !cmp.Equal(whole.contacts, cut.contacts) || !cmp.Equal(whole.refused, cut.refused) {
			t.Errorf("cut into bytes it reads differently:\n%+v\n%+v", whole, cut)
		}
		// Every line end, in any encoding, is a CR or LF byte.
		if rows, most := len(whole.contacts)+len(whole.refused), strings.Count(string(data), "\n")+strings.Count(string(data), "\r"); rows > most {
			t.Errorf("%d rows of %d lines", rows, most+1)
		}
		line := 0
		for _, c := range whole.contacts {
			if !strings.HasPrefix(c.Phone, "+") || !allDigits(c.Phone[1:]) || len(c.Phone) > 16 || c.Line <= line {
				t.Errorf("contact on line %d behind line %d: phone %q", c.Line, line, c.Phone)
			}
			line = c.Line
		}
		for _, e := range whole.refused {
			if e.Reason == "" || e.Hint == "" {
				t.Errorf("line %d: reason %q, hint %q", e.Line, e.Reason, e.Hint)
			}
		}
	})
}
