package cloudapi

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestAWrongSecretIsSaid: an operator hears that signatures do not match, and
// strangers cannot fill the log with it.
func TestAWrongSecretIsSaid(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	rc := newTestReceiver(t, &memory{}, func(o *ReceiverOptions) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	body := []byte(`{"entry":[]}`)
	post(rc, body, sign(testSecret, body))
	if log.Len() > 0 {
		t.Errorf("a good signature was logged: %s", log.String())
	}
	for range 50 {
		post(rc, body, sign("another secret", body))
	}
	if n := strings.Count(log.String(), "WEIR_APP_SECRET"); n != 1 {
		t.Errorf("50 wrong signatures in a row made %d warnings, want 1:\n%s", n, log.String())
	}
}
