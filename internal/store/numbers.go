package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// NumberInfo is a business phone number as the operator set it and as it stands.
type NumberInfo struct {
	engine.Number
	Portfolio  string // Meta's business portfolio; "" when not told
	Display    string // as people read it; "" when not told
	TokenFile  string // a path on the nodes; tokens are never stored
	StopReason string // why it is not enabled
	// Said is the platform's last word on its quality or pace, AccountSaid that on
	// its business account; "" when there was none.
	Said, AccountSaid     string
	SaidAt, AccountSaidAt time.Time
	DailyLimit            int64 // people whom its portfolio may reach in 24 h, or engine.NoLimit; 0: not said
	// Holder is the node that owns it now, "" when none does; LeaseLeft is how
	// long the lease lasts unless it is renewed, on the database's clock.
	Holder    string
	LeaseLeft time.Duration
}

// NumberChange is what SetNumber changes; nil changes nothing, a pointer to ""
// clears a text.
type NumberChange struct {
	Limit     *float64
	Headroom  *float64
	Burst     *int
	TokenFile *string
	Display   *string
}

// AddNumber makes a number ready to be leased and claimed for. A Burst of 0 is
// 1. It answers ErrExists, and changes nothing, when the number is there.
func (s *Store) AddNumber(ctx context.Context, n NumberInfo) error {
	n.Burst = max(n.Burst, 1)
	switch {
	case n.ID == "":
		return refuse(ErrRefused, "a number needs its phone_number_id (WhatsApp Manager shows it; it is not the phone number)")
	case n.WABA == "":
		return refuse(ErrRefused, "number %s needs the id of its WhatsApp business account", n.ID)
	}
	change := NumberChange{Limit: &n.Limit, Headroom: &n.Headroom, Burst: &n.Burst}
	if err := change.check(); err != nil {
		return err
	}
	added, err := s.q.AddNumber(ctx, s.pool, &db.AddNumberParams{
		ID: n.ID, Waba: n.WABA, Portfolio: n.Portfolio, Display: n.Display,
		MpsLimit: n.Limit, Headroom: n.Headroom, Burst: int32(n.Burst), TokenFile: n.TokenFile,
	})
	if err != nil {
		return fmt.Errorf("add number: %w", numberError(err))
	}
	if added == 0 {
		return refuse(ErrExists, "number %s is here already and was left as it is: change it with number set", n.ID)
	}
	return nil
}

// Numbers lists all numbers by id.
func (s *Store) Numbers(ctx context.Context) ([]NumberInfo, error) {
	rows, err := s.q.ListNumbers(ctx, s.pool, "")
	if err != nil {
		return nil, fmt.Errorf("list numbers: %w", err)
	}
	numbers := make([]NumberInfo, len(rows))
	for i, r := range rows {
		numbers[i] = numberInfo(r)
	}
	return numbers, nil
}

// FindNumber reads one number, or answers ErrNotFound.
func (s *Store) FindNumber(ctx context.Context, id string) (NumberInfo, error) {
	rows, err := s.q.ListNumbers(ctx, s.pool, id)
	if err != nil {
		return NumberInfo{}, fmt.Errorf("find number: %w", err)
	}
	if id == "" || len(rows) == 0 {
		return NumberInfo{}, noNumber(id)
	}
	return numberInfo(rows[0]), nil
}

func numberInfo(r db.ListNumbersRow) NumberInfo {
	return NumberInfo{
		Number: engine.Number{
			ID: r.ID, WABA: r.WabaID, Limit: r.MpsLimit, Headroom: r.Headroom, Burst: int(r.Burst),
			Enabled: r.Enabled, Paused: duration(r.PausedSeconds),
			Learned: engine.Learned{Rate: r.LearnedMps, Ceiling: r.LearnedCeiling, Age: duration(r.LearnedSeconds)},
		},
		Portfolio: r.Portfolio, Display: r.Display, TokenFile: r.TokenFile, StopReason: r.StopReason,
		Said: r.Said, SaidAt: r.SaidAt.Time, AccountSaid: r.AccountSaid, AccountSaidAt: r.AccountSaidAt.Time, DailyLimit: r.DailyLimit,
		Holder: r.Holder, LeaseLeft: duration(r.LeaseSeconds),
	}
}

// SetNumber changes a number's settings; running lanes take them up with their
// next look for work. It answers ErrNotFound or ErrRefused.
func (s *Store) SetNumber(ctx context.Context, id string, change NumberChange) error {
	if err := change.check(); err != nil {
		return err
	}
	p := &db.SetNumberParams{ID: id}
	if change.Limit != nil {
		p.MpsLimit = pgtype.Float8{Float64: *change.Limit, Valid: true}
	}
	if change.Headroom != nil {
		p.Headroom = pgtype.Float8{Float64: *change.Headroom, Valid: true}
	}
	if change.Burst != nil {
		p.Burst = pgtype.Int4{Int32: int32(*change.Burst), Valid: true}
	}
	if change.TokenFile != nil {
		p.TokenFile = pgtype.Text{String: *change.TokenFile, Valid: true}
	}
	if change.Display != nil {
		p.Display = pgtype.Text{String: *change.Display, Valid: true}
	}
	found, err := s.q.SetNumber(ctx, s.pool, p)
	if err != nil {
		return fmt.Errorf("set number: %w", numberError(err))
	}
	if found == 0 {
		return noNumber(id)
	}
	return nil
}

// EnableNumber lets a stopped number send again, once what stopped it is
// mended. A throttle's pause runs on. It answers ErrNotFound.
func (s *Store) EnableNumber(ctx context.Context, id string) error {
	found, err := s.q.EnableNumber(ctx, s.pool, id)
	if err != nil {
		return fmt.Errorf("enable number: %w", err)
	}
	if found == 0 {
		return noNumber(id)
	}
	return nil
}

// check judges what can be judged without the stored settings; the table's
// constraints judge the whole. !(x >= y) refuses NaN too.
func (c NumberChange) check() error {
	switch {
	case c.Limit != nil && !(*c.Limit >= 2 && *c.Limit <= 1e6):
		return refuse(ErrRefused, "the limit must be from 2 to 1 000 000 messages a second: Meta gives a number 80, and up to 1 000 on request")
	case c.Headroom != nil && !(*c.Headroom >= 0 && *c.Headroom < 1):
		return refuse(ErrRefused, "the headroom must be at least 0 and less than 1: 0.2 leaves a fifth of the limit for other traffic")
	case c.Burst != nil && (*c.Burst < 1 || *c.Burst > 1e6), c.Burst != nil && c.Limit != nil && !fitsBurst(*c.Burst, *c.Limit):
		return errBurst()
	}
	return nil
}

func fitsBurst(burst int, limit float64) bool { return burst == 1 || float64(burst) <= limit/20 }

func errBurst() error {
	return refuse(ErrRefused, "the burst must be 1, or at most a twentieth of the limit: a larger one can pass the limit within a second")
}

// numberError turns the one constraint that check cannot judge into its advice.
func numberError(err error) error {
	if sqlState(err) == "23514" {
		return errBurst()
	}
	return err
}

func noNumber(id string) error {
	return refuse(ErrNotFound, "there is no number %q: number list shows those there are, number add makes one", id)
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
