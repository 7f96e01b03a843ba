package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

func checkOf(v Verification, name string) Check {
	for _, c := range v.Checks {
		if c.Name == name {
			return c
		}
	}
	return Check{Name: "no check " + name}
}

// sent is a campaign whose rows have come to every status.
func sent(t require, s *Store, name string) int64 {
	t.Helper()
	id := draft(t, s, name, 13)
	exec(t, s, `WITH n AS (SELECT id, row_number() OVER (ORDER BY id) AS n FROM recipients WHERE campaign_id = $1),
		st AS (SELECT status, row_number() OVER (ORDER BY status) AS n FROM unnest(enum_range(NULL::recipient_status)) status)
		UPDATE recipients r SET status = st.status, claim = 1, attempt = 1, number_id = 'n1',
			due_at = CASE WHEN st.status = 'pending' THEN r.due_at END,
			message_id = CASE WHEN st.status >= 'accepted' THEN 'wamid.' || n.n END,
			accepted_at = CASE WHEN st.status >= 'accepted' THEN now() END,
			delivered_at = CASE WHEN st.status >= 'delivered' THEN now() END, read_at = CASE WHEN st.status = 'read' THEN now() END
		FROM n JOIN st ON st.n = n.n WHERE r.id = n.id`, id)
	exec(t, s, "INSERT INTO unknowns SELECT id, claim FROM recipients WHERE campaign_id = $1 AND status = 'unknown'", id)
	exec(t, s, "INSERT INTO attempts (recipient_id, claim, title) SELECT id, claim, 'opted_out' FROM recipients WHERE campaign_id = $1 AND status = 'suppressed'", id)
	exec(t, s, `WITH l AS (UPDATE number_leases SET lease_id = gen_random_uuid(), expires_at = now() + interval '1 h' RETURNING number_id, lease_id)
		INSERT INTO claims (number_id, lease_id, seq, ids, fences, dues)
		SELECT l.number_id, l.lease_id, $1, ARRAY[r.id], ARRAY[r.claim], ARRAY[now()] FROM l, recipients r WHERE r.campaign_id = $1 AND r.status = 'sending'`, id)
	exec(t, s, "INSERT INTO campaign_counts SELECT campaign_id, 'pending', -12 FROM campaigns c JOIN campaign_ranges g ON g.campaign_id = c.id WHERE c.id = $1", id)
	exec(t, s, "INSERT INTO campaign_counts SELECT campaign_id, status, 1 FROM recipients WHERE campaign_id = $1 AND status <> 'pending'", id)
	return id
}

func TestVerifyHolds(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := sent(t, s, "c")
	sent(t, s, "other")
	proveVerified(t, s, id)
	v, err := s.Verify(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	want := map[engine.Status]int64{}
	for _, status := range engine.Statuses() {
		want[status] = 1
	}
	if diff := cmp.Diff(want, v.Statuses); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if !v.OK() || v.Missing != 2 || v.Waiting != 1 || v.Orphaned != 1 || v.Doubled != 0 { // the second campaign's lease has made an orphan of this one's row
		t.Errorf("verification: %+v", v)
	}
	if _, err := s.Verify(t.Context(), id+100); !errors.Is(err, ErrNotFound) {
		t.Errorf("verify no campaign: %v", err)
	}
}

// Every check fails when its promise is broken, and no other one does.
func TestVerifyFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	n, other := 0, newCampaign(t, s, "other")
	for _, tc := range []struct{ check, also, broken string }{
		{"rows_read", "recipients", "ALTER TABLE campaign_imports DROP CONSTRAINT campaign_imports_check; UPDATE campaign_imports SET accepted = accepted + 1 WHERE campaign_id = @c"},
		{"recipients", "", "UPDATE campaign_imports SET accepted = accepted + 1, rows_read = rows_read + 1 WHERE campaign_id = @c"},
		{"params", "", "DELETE FROM recipient_params WHERE campaign_id = @c AND line = 5"},
		{"params", "", "INSERT INTO recipient_params SELECT hi + 1, campaign_id, 99, '+1', '{}' FROM campaign_ranges WHERE campaign_id = @c; UPDATE campaign_ranges SET hi = hi + 1 WHERE campaign_id = @c"},
		{"ranges", "", "INSERT INTO campaign_ranges SELECT @o, lo, lo FROM campaign_ranges WHERE campaign_id = @c"},
		{"due_index", "", "INSERT INTO recipients (id, campaign_id, due_at) VALUES (100000000 + @c, @c, now())"},
		{"due", "", "ALTER TABLE recipients DROP CONSTRAINT due_while_pending; UPDATE recipients SET due_at = NULL WHERE campaign_id = @c AND status = 'pending'"},
		{"message_id", "", "UPDATE recipients SET message_id = NULL WHERE campaign_id = @c AND status = 'accepted'"},
		{"message_id", "", "UPDATE recipients SET message_id = 'wamid.x' WHERE campaign_id = @c AND status = 'dead'"},
		{"delivered", "", "UPDATE recipients SET read_at = now() WHERE campaign_id = @c AND status = 'sent'"},
		{"delivered", "", "UPDATE recipients SET delivered_at = now() WHERE campaign_id = @c AND status = 'accepted'"},
		{"attempts", "", "UPDATE recipients SET attempt = 6 WHERE campaign_id = @c AND status = 'dead'"},
		{"stuck", "", "DELETE FROM claims WHERE seq = @c"},
		{"stuck", "", "UPDATE claims SET fences = '{7}' WHERE seq = @c"},
		{"unknown", "", "DELETE FROM unknowns"},
		{"unknown", "", "UPDATE unknowns SET claim = 7"},
		{"suppressed", "", "DELETE FROM attempts a USING recipients r WHERE r.id = a.recipient_id AND r.campaign_id = @c AND r.status = 'suppressed'"},
		{"sent_once", "", "INSERT INTO attempts (recipient_id, claim, message_id) SELECT id, 7, 'wamid.second' FROM recipients WHERE campaign_id = @c AND status = 'read'"},
		{"counts", "", "INSERT INTO campaign_counts VALUES (@c, 'read', 1)"},
	} {
		n++
		id := sent(t, s, string(rune('a'+n)))
		exec(t, s, strings.NewReplacer("@c", fmt.Sprint(id), "@o", fmt.Sprint(other)).Replace(tc.broken))
		v, err := s.Verify(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range v.Checks {
			broken := c.Name == tc.check || c.Name == tc.also || tc.check == "due" && c.Name == "due_index"
			if c.OK == broken || c.OK == (c.Hint != "") {
				t.Errorf("after %q: check %s: %d, want %d, hint %q", tc.broken, c.Name, c.Found, c.Want, c.Hint)
			}
		}
	}
}
