package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// line is one fact of a history in a file: exactly one field is set.
type line struct {
	Run      *Run      `json:"run,omitempty"`
	Request  *Request  `json:"request,omitempty"`
	Try      *Try      `json:"try,omitempty"`
	Row      *Row      `json:"row,omitempty"`
	Campaign *Campaign `json:"campaign,omitempty"`
	Claim    *Claim    `json:"claim,omitempty"`
	Doubt    *Doubt    `json:"doubt,omitempty"`
	Lease    *Lease    `json:"lease,omitempty"`
	Move     *Move     `json:"move,omitempty"`
	Call     *Call     `json:"call,omitempty"`
	Mark     *Mark     `json:"mark,omitempty"`
	Leak     *Leak     `json:"leak,omitempty"`
}

// Write writes the history as NDJSON, one fact a line, for [Read]. Phone
// numbers and message ids are hashes in it.
func (h *History) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	err := enc.Encode(line{Run: &h.Run})
	each(enc, &err, h.Marks, func(v *Mark) line { return line{Mark: v} })
	each(enc, &err, h.Leaks, func(v *Leak) line { return line{Leak: v} })
	each(enc, &err, h.Calls, func(v *Call) line { return line{Call: v} })
	each(enc, &err, h.Campaigns, func(v *Campaign) line { return line{Campaign: v} })
	each(enc, &err, h.Moves, func(v *Move) line { return line{Move: v} })
	each(enc, &err, h.Leases, func(v *Lease) line { return line{Lease: v} })
	each(enc, &err, h.Claims, func(v *Claim) line { return line{Claim: v} })
	each(enc, &err, h.Doubts, func(v *Doubt) line { return line{Doubt: v} })
	each(enc, &err, h.Requests, func(v *Request) line { return line{Request: v} })
	each(enc, &err, h.Tries, func(v *Try) line { return line{Try: v} })
	each(enc, &err, h.Rows, func(v *Row) line { return line{Row: v} })
	if err = errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

func each[T any](enc *json.Encoder, err *error, list []T, as func(*T) line) {
	for i := range list {
		if *err != nil {
			return
		}
		*err = enc.Encode(as(&list[i]))
	}
}

// Read reads what [History.Write] wrote.
func Read(r io.Reader) (*History, error) {
	h := &History{}
	dec := json.NewDecoder(bufio.NewReader(r))
	for n := 1; ; n++ {
		var l line
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return h, nil
		} else if err != nil {
			return nil, fmt.Errorf("read history, line %d: %w", n, err)
		}
		if l.Run != nil {
			h.Run = *l.Run
		}
		add(&h.Marks, l.Mark)
		add(&h.Leaks, l.Leak)
		add(&h.Calls, l.Call)
		add(&h.Campaigns, l.Campaign)
		add(&h.Moves, l.Move)
		add(&h.Leases, l.Lease)
		add(&h.Claims, l.Claim)
		add(&h.Doubts, l.Doubt)
		add(&h.Requests, l.Request)
		add(&h.Tries, l.Try)
		add(&h.Rows, l.Row)
	}
}

func add[T any](list *[]T, v *T) {
	if v != nil {
		*list = append(*list, *v)
	}
}
