package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// ReplayOrder asks for a campaign's dead letters to be sent anew.
type ReplayOrder struct {
	ID         string // UUID; the same again moves nobody twice; "" makes one
	Campaign   int64
	Filter     DeadFilter
	Countries  Countries
	Force      bool    // also those whose message may have gone out, or whose call may still be under way
	MaxReplays int     // of one recipient, ever; default 3
	Rate       float64 // recipients that become due a second; 0: all at once, and the numbers pace them
	Who        string  // for the record

	found Campaign // once it is open
}

// Skip is why a replay passes a dead letter by.
type Skip string

// The skips.
const (
	Taken        Skip = ""
	SkipReplayed Skip = "replayed" // by this id before, and dead again
	SkipCapped   Skip = "capped"   // replayed as often as is allowed
	SkipUnknown  Skip = "unknown"  // its message may have gone out: only by force
	SkipInHand   Skip = "in_hand"  // its claim batch is not over: later, or by force
	SkipChanged  Skip = "changed"  // something else was faster
)

// Skip is what the order makes of a dead letter that its filter lets through.
func (o ReplayOrder) Skip(l DeadLetter) Skip {
	switch {
	case l.Status == engine.Unknown:
		return SkipUnknown // whatever the force: close it first
	case o.ID != "" && l.lastReplay == o.ID:
		return SkipReplayed
	case l.Replays >= o.most():
		return SkipCapped
	case !o.Force && l.Sent():
		return SkipUnknown
	case !o.Force && l.inHand:
		return SkipInHand
	default:
		return Taken
	}
}

func (o ReplayOrder) most() int { return cmp.Or(o.MaxReplays, 3) }

// Replayed is what became of a replay.
type Replayed struct {
	Moved   int64 // recipients that wait again, by this run
	Skipped map[Skip]int64
}

// CheckReplay refuses what no replay may touch, and says what to do instead. It
// answers ErrNotFound or ErrRefused.
func (s *Store) CheckReplay(ctx context.Context, campaign int64) (Campaign, error) {
	c, err := s.FindCampaign(ctx, strconv.FormatInt(campaign, 10))
	if err != nil {
		return c, err
	}
	locked, err := s.q.LockCampaign(ctx, s.pool, campaign)
	if err != nil {
		return c, fmt.Errorf("look at campaign: %w", err)
	}
	if err := s.vouched(ctx); err != nil {
		return c, err
	}
	return c, whyNoReplay(c, locked)
}

// vouched refuses a decision on a database that may have forgotten what went out.
func (s *Store) vouched(ctx context.Context) error {
	confirmed, err := s.Confirmed(ctx)
	if err == nil && !confirmed {
		err = refuse(ErrRefused, "this database is not the one that was vouched for, and may have forgotten what went out: weir database status says what to do")
	}
	return err
}

// whyNoReplay judges a campaign as it stands under its lock.
func whyNoReplay(c Campaign, locked []db.LockCampaignRow) error {
	if len(locked) == 0 {
		return refuse(ErrNotFound, "campaign %q was dropped", c.Name)
	}
	const instead = "to reach these people after all, create a campaign of them: campaign export says who they are"
	switch state := CampaignState(locked[0].State); {
	case state == Importing || state == Draft:
		return refuse(ErrRefused, "campaign %q has not been started: it has no dead letters", c.Name)
	case state == Canceling || state == Canceled:
		return refuse(ErrRefused, "campaign %q was canceled, and nothing more is sent of it; %s", c.Name, instead)
	case locked[0].Expired:
		return refuse(ErrRefused, "campaign %q expired at %s, and nothing more is sent of it; %s", c.Name, c.ExpireAt.UTC().Format(time.RFC3339), instead)
	default:
		return nil
	}
}

// OpenReplay puts an order on record and returns it with its id; moved is how
// many recipients an earlier run of the same id has moved. It answers
// ErrRefused for an id that stands for another order, and as CheckReplay.
func (s *Store) OpenReplay(ctx context.Context, o ReplayOrder) (order ReplayOrder, moved int64, err error) {
	if o.found, err = s.CheckReplay(ctx, o.Campaign); err != nil {
		return o, 0, err
	}
	id, err := uuid.Parse(cmp.Or(o.ID, uuid.NewString()))
	if err != nil {
		return o, 0, refuse(ErrRefused, "%q is no replay id: give the one that the replay printed (dead replays lists them), or none", o.ID)
	}
	o.ID = id.String()
	filter, err := json.Marshal(o.Filter)
	if err != nil {
		return o, 0, fmt.Errorf("encode filter: %w", err)
	}
	rows, err := s.q.OpenReplay(ctx, s.pool, &db.OpenReplayParams{ID: o.ID, Campaign: o.Campaign, Filter: filter, Force: o.Force, Who: o.Who})
	switch {
	case err != nil:
		return o, 0, fmt.Errorf("open replay: %w", err)
	case len(rows) == 0:
		return o, 0, refuse(ErrRefused, "replay %s was made for another choice of recipients (dead replays shows which): give the same, or no id for a new replay", o.ID)
	}
	return o, rows[0], nil
}

// replayIDs is how many ids one transaction of a replay covers, and so the most
// recipients it moves: short enough that claims and webhooks hardly notice.
const replayIDs = 5_000

// RunReplay moves the dead letters of an open order back to pending, page by page.
// From there they take the normal path: bucket, caps, suppression. A run that
// was cut short is finished by another of the same id, and two at once move
// nobody twice. A finished campaign runs again; a canceled or expired one is
// refused, also when it becomes so in the middle.
func (s *Store) RunReplay(ctx context.Context, o ReplayOrder) (Replayed, error) {
	done := Replayed{Skipped: map[Skip]int64{}}
	for page, err := range s.pages(ctx, o.Campaign, replayIDs) {
		if err != nil {
			return done, err
		}
		letters, err := s.deadPage(ctx, page, o.Countries)
		if err != nil {
			return done, err
		}
		p := o.choose(letters, done.Skipped)
		moved, err := s.replayPage(ctx, o.found, p)
		if err != nil {
			return done, err
		}
		done.Moved += moved
		if changed := int64(len(p.Ids)) - moved; changed > 0 {
			done.Skipped[SkipChanged] += changed
		}
	}
	return done, nil
}

// choose names the dead letters of a page that are to be moved, and counts the
// others.
func (o ReplayOrder) choose(letters []DeadLetter, skipped map[Skip]int64) *db.ReplayRecipientsParams {
	p := &db.ReplayRecipientsParams{Campaign: o.Campaign, Replay: o.ID, Force: o.Force, MaxReplays: int32(o.most())}
	if o.Rate > 0 {
		p.GapSeconds = 1 / o.Rate
	}
	for _, l := range letters {
		if !o.Filter.Takes(l) {
			continue
		}
		if why := o.Skip(l); why != Taken {
			skipped[why]++
			continue
		}
		p.Ids, p.Claims, p.Statuses = append(p.Ids, l.Recipient), append(p.Claims, l.Claim), append(p.Statuses, l.Status.String())
	}
	return p
}

// replayPage moves one page's, under the lock of the campaign's row.
func (s *Store) replayPage(ctx context.Context, c Campaign, p *db.ReplayRecipientsParams) (moved int64, err error) {
	if len(p.Ids) == 0 {
		return 0, nil
	}
	err = again(func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if err := s.holdStops(ctx, tx); err != nil {
				return err
			}
			locked, err := s.q.LockCampaign(ctx, tx, p.Campaign)
			if err == nil {
				err = whyNoReplay(c, locked)
			}
			if err == nil {
				moved, err = s.q.ReplayRecipients(ctx, tx, p)
			}
			return err
		})
	})
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrNotFound) {
		return 0, err
	}
	return moved, wrap("replay recipients", err)
}

// CloseOrder asks for outcomes that nobody knows to be given up.
type CloseOrder struct {
	Campaign int64
	Number   string        // only those last sent from it; "": all
	Phone    string        // only this person's, E.164; "": all
	Older    time.Duration // only those unknown for this long, on the database's clock
	Who      string        // for the record
}

// CloseUnknowns gives up the unknown outcomes that a campaign holds, and says
// how many: they become dead, and a replay with force sends them anew. It
// answers ErrNotFound, or ErrRefused where the campaign's policy decides itself.
func (s *Store) CloseUnknowns(ctx context.Context, o CloseOrder) (closed int, err error) {
	c, err := s.FindCampaign(ctx, strconv.FormatInt(o.Campaign, 10))
	if err != nil {
		return 0, err
	}
	if c.OnUnknown != engine.UnknownHolds {
		return 0, refuse(ErrRefused, "campaign %q does not hold its unknown outcomes: it was made with --on-unknown %s, which decides for each once webhooks have been healthy for long enough",
			c.Name, c.OnUnknown)
	}
	if err := s.vouched(ctx); err != nil {
		return 0, err
	}
	for {
		n, err := s.moved("close unknowns", func() (int64, error) { return s.q.CloseUnknowns(ctx, s.pool, o.params()) })
		closed += n
		if err != nil || n == 0 {
			return closed, err
		}
	}
}

func (o CloseOrder) params() *db.CloseUnknownsParams {
	return &db.CloseUnknownsParams{Campaign: o.Campaign, Number: o.Number, Phone: o.Phone, OlderSeconds: o.Older.Seconds(), Who: o.Who}
}

// Replay is one that has been asked for.
type Replay struct {
	ID       string
	Campaign string // its name
	Filter   []byte // JSON of a DeadFilter
	Forced   bool
	Who      string
	At       time.Time
	Moved    int64     // recipients, by all its runs
	LastDue  time.Time // when the last of them becomes due
}

// Replays lists the replays of a campaign, or all for 0, newest first.
func (s *Store) Replays(ctx context.Context, campaign int64) ([]Replay, error) {
	rows, err := s.q.Replays(ctx, s.pool, campaign)
	if err != nil {
		return nil, fmt.Errorf("list replays: %w", err)
	}
	replays := make([]Replay, len(rows))
	for i, r := range rows {
		replays[i] = Replay{
			ID: r.ID, Campaign: r.Campaign, Filter: r.Filter, Forced: r.Forced, Who: r.Who, At: r.At.Time, Moved: r.Moved, LastDue: r.LastDue.Time,
		}
	}
	return replays, nil
}
