package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// Person is everything on record about one phone number. It is for the eyes of
// an operator, not for logs.
type Person struct {
	Now          time.Time   // the database's, when it was read
	Confirmed    bool        // the database: on another than the operator's nothing is claimed
	Stopped      bool        // everything is
	Rows         []PersonRow // newest campaign first, at most 200
	Suppressions []Suppression
	Unmatched    []Unmatched
}

// PersonRow is the person in one campaign.
type PersonRow struct {
	Recipient int64
	Phone     string // as the file had it
	Line      int64
	File      string

	Campaign               string
	CampaignID             int64
	Category               engine.Category
	State                  CampaignState
	StateReason            string
	Stopped                bool      // with everything else
	PausedUntil            time.Time // running: not claimed from before; zero: not paused
	OnUnknown              engine.OnUnknown
	MaxAttempts            int
	AbsentDays             int // whom it leaves out for not being on WhatsApp
	CreatedAt, StartAt     time.Time
	StartedAt, ExpireAt    time.Time
	ZoneOpens, ZoneCloses  time.Time // zero: always open
	ZoneShut               bool      // its hours are not known, and it is closed
	TZ                     string
	Status                 engine.Status
	Claim                  int32
	Attempt, Replays       int
	Number, MessageID      string
	ErrorCode              int
	DueAt                  time.Time // zero unless pending
	AcceptedAt, SentAt     time.Time
	DeliveredAt, ReadAt    time.Time
	FailedAt, UnknownSince time.Time
	ClaimedAt              time.Time // zero unless a lane has it
	Attempts               []Attempt // oldest first; a plain acceptance leaves none
	Replay                 *Replay   // the last one, if any
	Senders                []Sender

	lastReplay string
}

// Attempt is what is on record of one claim of a row.
type Attempt struct {
	Claim     int32
	Number    string
	At        time.Time
	Code      int
	Title     string
	MessageID string
	Failed    bool // by the platform's word
}

// Sender is a number of a campaign and what holds it back.
type Sender struct {
	ID            string
	WABA          string
	Fallback      bool
	Floor         int           // attempts that must have been spent before it may claim; -1: none are enough while a primary is able
	Wait          time.Duration // how long no primary must be able before a fallback number stands in
	Enabled       bool
	StopReason    string
	PausedUntil   time.Time // zero: not paused
	Owned         bool
	ReadyAt       time.Time // zero: no quarantine
	Breaker       string    // closed, open, half_open or missing
	OpenUntil     time.Time
	Forced        string // why somebody holds the breaker as it is; "": calls decide
	Host          string // the platform's breaker, alike
	HostOpenUntil time.Time
	HostForced    string
}

// SuppressionKind is why nothing may be sent to a person.
type SuppressionKind string

// The kinds. Each is a row of its own: none lifts or shortens another.
const (
	OptOut   SuppressionKind = "suppress" // an operator's list, or Meta's word
	SaidStop SuppressionKind = "stop"     // the person's own, in a message to us
	Absent   SuppressionKind = "absent"   // not on WhatsApp when last tried
	Wait     SuppressionKind = "wait"     // for a time: Meta's limits on one person
)

// Suppression is whom nothing may be sent to, or not yet.
type Suppression struct {
	Scope  string // all, a category, waba:ID, waba:ID:category or number:ID
	Kind   SuppressionKind
	Reason string
	At     time.Time // when it was said; zero: it was only heard that it was taken back
	Until  time.Time // zero: for ever, where it holds
	Holds  bool      // now

	LiftedAt time.Time // zero: not since At
	LiftedBy string    // the operator; "": the person, in a message or as Meta says
}

// Unmatched is a status that found no recipient.
type Unmatched struct {
	At, RetryAt time.Time
	Number      string
	Status      string
	MessageID   string
	Code        int
	Title       string
}

// Explain gathers what is known of a phone number in E.164, in the other ways
// too in which the platform may write it. It answers ErrNotFound for one that
// is nowhere.
func (s *Store) Explain(ctx context.Context, phone string) (Person, error) {
	written := phones(phone)
	rows, err := s.q.PersonRows(ctx, s.pool, written)
	if err != nil {
		return Person{}, fmt.Errorf("find person: %w", err)
	}
	moment, err := s.q.PersonMoment(ctx, s.pool)
	if err != nil {
		return Person{}, fmt.Errorf("read the database's time: %w", err)
	}
	p := Person{Now: moment.Now.Time, Confirmed: moment.Vouched, Stopped: moment.Stopped}
	for _, r := range rows {
		row, err := personRow(r)
		if err != nil {
			return p, err
		}
		p.Rows = append(p.Rows, row)
	}
	if err := s.explainRows(ctx, p.Rows); err != nil {
		return p, err
	}
	if err := s.explainPhone(ctx, written, &p); err != nil {
		return p, err
	}
	if len(p.Rows)+len(p.Suppressions)+len(p.Unmatched) == 0 {
		return p, refuse(ErrNotFound, "this phone is in no campaign, in no suppression and in no webhook that matched nothing: is it complete, with its country code?")
	}
	return p, nil
}

func personRow(r db.PersonRowsRow) (PersonRow, error) {
	status, err := engine.ParseStatus(r.Status)
	return PersonRow{
		Recipient: r.ID, Phone: r.Phone, Line: r.Line, File: r.File,
		Campaign: r.Name, CampaignID: r.CampaignID, Category: engine.Category(r.Category), State: CampaignState(r.State), StateReason: r.StateReason, Stopped: r.Stopped, PausedUntil: r.PausedUntil.Time,
		OnUnknown: engine.OnUnknown(r.OnUnknown), MaxAttempts: int(r.MaxAttempts), AbsentDays: int(r.AbsentDays),
		CreatedAt: r.CreatedAt.Time, StartAt: r.StartAt.Time, StartedAt: r.StartedAt.Time, ExpireAt: r.ExpireAt.Time,
		ZoneOpens: r.OpensAt.Time, ZoneCloses: r.ClosesAt.Time, TZ: r.Tz,
		ZoneShut: !r.ClosesAt.Valid || r.ClosesAt.InfinityModifier == pgtype.NegativeInfinity,
		Status:   status, Claim: r.Claim, Attempt: int(r.Attempt), Replays: int(r.Replays), Number: r.NumberID, MessageID: r.MessageID, ErrorCode: int(r.ErrorCode),
		DueAt: r.DueAt.Time, AcceptedAt: r.AcceptedAt.Time, SentAt: r.SentAt.Time, DeliveredAt: r.DeliveredAt.Time, ReadAt: r.ReadAt.Time,
		FailedAt: r.FailedAt.Time, UnknownSince: r.UnknownSince.Time, ClaimedAt: r.ClaimedAt.Time, lastReplay: r.LastReplayID,
	}, err
}

// explainRows adds what happened to each row, and what can send it.
func (s *Store) explainRows(ctx context.Context, rows []PersonRow) error {
	var ids, campaigns []int64
	var replays []string
	at := map[int64]*PersonRow{}
	for i := range rows {
		ids, campaigns, replays = append(ids, rows[i].Recipient), append(campaigns, rows[i].CampaignID), append(replays, rows[i].lastReplay)
		at[rows[i].Recipient] = &rows[i]
	}
	attempts, err := s.q.PersonAttempts(ctx, s.pool, ids)
	if err != nil {
		return fmt.Errorf("read attempts: %w", err)
	}
	for _, a := range attempts {
		row := at[a.RecipientID]
		row.Attempts = append(row.Attempts, Attempt{
			Claim: a.Claim, Number: a.NumberID, At: a.At.Time, Code: int(a.Code), Title: a.Title, MessageID: a.MessageID, Failed: a.Failed,
		})
	}
	told, err := s.q.PersonReplays(ctx, s.pool, replays)
	if err != nil {
		return fmt.Errorf("read replays: %w", err)
	}
	senders, err := s.q.PersonSenders(ctx, s.pool, campaigns)
	if err != nil {
		return fmt.Errorf("read numbers: %w", err)
	}
	for i := range rows {
		rows[i].takes(told, senders)
	}
	return nil
}

// takes picks what belongs to the row.
func (r *PersonRow) takes(replays []db.PersonReplaysRow, senders []db.PersonSendersRow) {
	for _, p := range replays {
		if p.ID == r.lastReplay {
			r.Replay = &Replay{ID: p.ID, Campaign: r.Campaign, Forced: p.Forced, Who: p.Who, At: p.At.Time}
		}
	}
	for _, n := range senders {
		if n.CampaignID == r.CampaignID {
			r.Senders = append(r.Senders, sender(n))
		}
	}
}

func sender(n db.PersonSendersRow) Sender {
	return Sender{
		ID: n.ID, WABA: n.WabaID, Fallback: n.Role == role(true), Enabled: n.Enabled, StopReason: n.StopReason, PausedUntil: n.PausedUntil.Time,
		Owned: n.Owned, ReadyAt: n.ReadyAt.Time, Breaker: n.Breaker, OpenUntil: n.OpenUntil.Time, Forced: n.Forced,
		Host: n.Host, HostOpenUntil: n.HostUntil.Time, HostForced: n.HostForced, Floor: int(n.Floor), Wait: duration(n.WaitSeconds),
	}
}

// explainPhone adds what is known of the phone in no campaign.
func (s *Store) explainPhone(ctx context.Context, written []string, p *Person) error {
	suppressions, err := s.q.PersonSuppressions(ctx, s.pool, written)
	if err != nil {
		return fmt.Errorf("read suppressions: %w", err)
	}
	for _, o := range suppressions {
		p.Suppressions = append(p.Suppressions, Suppression{Scope: o.Scope, Kind: SuppressionKind(o.Kind), Reason: o.Reason, At: o.At.Time, Until: o.Until.Time, Holds: o.Holds, LiftedAt: o.LiftedAt.Time, LiftedBy: o.LiftedBy})
	}
	digits := make([]string, len(written))
	for i, phone := range written {
		digits[i] = strings.TrimPrefix(phone, "+")
	}
	events, err := s.q.PersonUnmatched(ctx, s.pool, digits)
	if err != nil {
		return fmt.Errorf("read unmatched statuses: %w", err)
	}
	for _, e := range events {
		lost, err := readLost(e.Body)
		if err != nil {
			continue // the job that tries them again sorts it out
		}
		p.Unmatched = append(p.Unmatched, Unmatched{
			At: e.At.Time, RetryAt: e.RetryAt.Time, Number: e.NumberID, Status: lost.Status.String(), MessageID: lost.MessageID, Code: lost.Code, Title: lost.Title,
		})
	}
	return nil
}
