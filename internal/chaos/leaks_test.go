//go:build !race

package chaos

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// secrets are what a run is full of and no log may hold, as the run makes them:
// the audiences' phones, the simulator's message ids, the nodes' access tokens,
// and the password in a database's address.
var secrets = []struct {
	what string
	form *regexp.Regexp
}{
	{"phone number", regexp.MustCompile(`\b49151\d{8}\b`)},
	{"message id", regexp.MustCompile(`wamid\.`)},
	{"token", regexp.MustCompile(`token-[a-z]\.\d`)},
	{"password", regexp.MustCompile(`postgres(ql)?://[^\s:/@]+:[^\s/@]+@`)},
}

// leaks looks through a log.
func leaks(name string, log io.Reader) (found []Leak, err error) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		for _, s := range secrets {
			if s.form.Match(lines.Bytes()) {
				found = append(found, Leak{name, n, s.what})
			}
		}
	}
	return found, lines.Err()
}

// logs looks through what every node of the run has logged.
func (f *fleet) logs(h *History) error {
	files, err := filepath.Glob(filepath.Join(f.keep, "*.log"))
	if err != nil {
		return fmt.Errorf("find the nodes' logs: %w", err)
	}
	for _, file := range files {
		log, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("open a node's log: %w", err)
		}
		found, err := leaks(filepath.Base(file), log)
		_ = log.Close() // it was only read
		if err != nil {
			return fmt.Errorf("read a node's log: %w", err)
		}
		h.Leaks = append(h.Leaks, found...)
	}
	return nil
}

func TestLeaksAreFound(t *testing.T) {
	t.Parallel()
	log := strings.Join([]string{
		`level=INFO msg="lane starts" number=106540352242922 lease=49151234-625f-4efa-a568-fa5177546fdf`,
		`level=WARN msg="not sent" to=+4915110000007`,
		`level=WARN msg="not sent" id=wamid.HBgLMTY1MDUwNzY1MjAV`,
		`level=WARN msg="refused" err="Bearer token-a.1"`,
		`level=WARN msg="no answer" err="postgres://weir:secret@127.0.0.1:5432/run1"`,
		`level=WARN msg="no answer" err="postgres://weir@127.0.0.1:5432/run1" node=a.1`,
	}, "\n")
	found, err := leaks("a.1.log", strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	want := []Leak{{"a.1.log", 2, "phone number"}, {"a.1.log", 3, "message id"}, {"a.1.log", 4, "token"}, {"a.1.log", 5, "password"}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
