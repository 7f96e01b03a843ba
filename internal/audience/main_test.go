package audience

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outcome is a whole reading.
type outcome struct {
	contacts []Contact
	refused  []*RowError
	end      error // nil at the file's end
}

func open(t testing.TB, text string, opts Options) *File {
	t.Helper()
	f, err := Open(strings.NewReader(text), opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return f
}

func readAll(t testing.TB, text string, opts Options) outcome {
	t.Helper()
	return drain(open(t, text, opts))
}

func drain(f *File) (o outcome) {
	for c, err := range f.Contacts(context.Background()) {
		var refusal *RowError
		switch {
		case err == nil:
			o.contacts = append(o.contacts, c)
		case errors.As(err, &refusal):
			o.refused = append(o.refused, refusal)
		default:
			o.end = err
		}
	}
	return o
}

// read opens and drains; an error of Open is the end too.
func read(src io.Reader, opts Options) outcome {
	f, err := Open(src, opts)
	if err != nil {
		return outcome{end: err}
	}
	return drain(f)
}
