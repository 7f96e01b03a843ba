package engine

import (
	"cmp"
	"slices"
	"time"
)

// foldKey is one message of one claim of one recipient. A status without our
// callback id has recipient 0 and is told apart by its message id alone, which
// is unique at the platform.
type foldKey struct {
	recipient int64
	claim     int32
	message   string
}

// Fold reduces words of the platform's to one per (recipient, claim, message
// id), sorted by recipient, claim and message id: the greatest status, the
// first time of each status, and the reason of the first failure even when
// something greater outranks it.
//
// It is a join: order, duplicates and batching of its input cannot matter, and
// folding what was folded changes nothing. One statement must not hold two
// words about one message, because UPDATE … FROM would pick either; and it
// must be sorted, because two unsorted batches deadlock.
func Fold(updates []StatusUpdate) []StatusUpdate {
	at := make(map[foldKey]int, len(updates))
	folded := make([]StatusUpdate, 0, len(updates))
	for _, u := range updates {
		u = u.stamped()
		k := foldKey{u.Recipient, u.Claim, u.MessageID}
		if i, ok := at[k]; ok {
			folded[i] = join(folded[i], u)
			continue
		}
		at[k] = len(folded)
		folded = append(folded, u)
	}
	slices.SortFunc(folded, func(a, b StatusUpdate) int {
		return cmp.Or(
			cmp.Compare(a.Recipient, b.Recipient),
			cmp.Compare(a.Claim, b.Claim),
			cmp.Compare(a.MessageID, b.MessageID),
		)
	})
	return folded
}

// stamped puts At into the field of the update's own status, where join finds it.
func (u StatusUpdate) stamped() StatusUpdate {
	switch u.Status {
	case Sent:
		u.SentAt = earlier(u.SentAt, u.At)
	case Delivered:
		u.DeliveredAt = earlier(u.DeliveredAt, u.At)
	case Read:
		u.ReadAt = earlier(u.ReadAt, u.At)
	case Failed:
		u.FailedAt = earlier(u.FailedAt, u.At)
	}
	return u
}

// join is the least upper bound of two words about one message.
func join(a, b StatusUpdate) StatusUpdate {
	top := a
	switch {
	case b.Status > a.Status:
		top.Status, top.At = b.Status, b.At
	case b.Status == a.Status:
		top.At = earlier(a.At, b.At)
	}
	top.SentAt = earlier(a.SentAt, b.SentAt)
	top.DeliveredAt = earlier(a.DeliveredAt, b.DeliveredAt)
	top.ReadAt = earlier(a.ReadAt, b.ReadAt)
	first := a
	if compareFailure(b, a) < 0 {
		first = b
	}
	top.FailedAt, top.Code, top.Title, top.Asks = first.FailedAt, first.Code, first.Title, first.Asks
	top.Number = lesser(a.Number, b.Number)
	top.Phone = lesser(a.Phone, b.Phone)
	return top
}

// compareFailure orders failures by time, then by code and words; no failure
// at all comes last. A total order is what makes the choice independent of
// the order of arrival.
func compareFailure(a, b StatusUpdate) int {
	return cmp.Or(
		compareBool(a.failing(), b.failing()),
		compareBool(!a.FailedAt.IsZero(), !b.FailedAt.IsZero()),
		a.FailedAt.Compare(b.FailedAt),
		cmp.Compare(a.Code, b.Code),
		cmp.Compare(a.Title, b.Title),
	)
}

func (u StatusUpdate) failing() bool {
	return !u.FailedAt.IsZero() || u.Code != 0 || u.Title != ""
}

// compareBool puts true first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// earlier is the first of two times; a zero time is no time.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// lesser is the smaller of two words; "" is no word.
func lesser(a, b string) string {
	if a == "" || (b != "" && b < a) {
		return b
	}
	return a
}
