package audience

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
)

// people writes a file of n rows and six columns, with numbers of five countries.
func people(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	b.WriteString("phone,first_name,last_name,city,order,amount\n")
	for i := range n {
		d := r.IntN(10_000_000)
		phone := [...]string{
			fmt.Sprintf("+49151%08d", d), fmt.Sprintf("+55119%08d", 60000000+d), fmt.Sprintf("+919%09d", 800000000+d),
			fmt.Sprintf("+1212555%04d", d%10000), fmt.Sprintf("+4473%08d", d),
		}[i%5]
		fmt.Fprintf(&b, "%s,Ana%d,Silva,\"São Paulo, SP\",A-%d,%d.50\n", phone, i, i, d)
	}
	return b.Bytes()
}

func BenchmarkContacts(b *testing.B) {
	for _, c := range []struct{ name, country string }{{"plus", ""}, {"bare", "DE"}} {
		b.Run(c.name, func(b *testing.B) { benchmarkContacts(b, c.country) })
	}
}

func benchmarkContacts(b *testing.B, country string) {
	const rows = 100_000
	file := people(rows)
	if country != "" {
		file = bytes.ReplaceAll(file, []byte("\n+49"), []byte("\n"))
	}
	opts := Options{Params: []string{"first_name", "city", "order"}, DefaultCountry: country}
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	var good int
	for b.Loop() {
		f, err := Open(bytes.NewReader(file), opts)
		if err != nil {
			b.Fatal(err)
		}
		good = 0
		for _, err := range f.Contacts(context.Background()) {
			if err == nil {
				good++
			}
		}
	}
	if good < rows*9/10 {
		b.Fatalf("%d of %d rows are good", good, rows)
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
