package cloudapi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhq/weir/engine"
)

// op is how a value is written into the request.
type op uint8

const (
	opNone     op = iota // the segment is only its literal
	opText               // "value"
	opMedia              // "link":"value" for a URL, else "id":"value"
	opFilename           // ,"filename":"value", and nothing when empty
)

// segment is a piece of the request that is the same for every recipient, and
// the one value that follows it.
type segment struct {
	before string
	op     op
	param  engine.Param
}

// plan is a template's request, compiled once: everything after the callback
// id. The encoder then only copies and escapes.
type plan struct {
	segments []segment
	size     int // of the literals
}

// place is one parameter with its parsed target.
type place struct {
	Target
	param engine.Param
}

// layout is a template's parameters by component, in the order of the request.
type layout struct {
	header, body, buttons []place
	media, filename       *place
}

// CheckParams reports what is wrong with a campaign's parameters by
// themselves, without asking Meta for the template: a target that does not
// parse, a position left out, names mixed with positions, a button of no kind.
// CheckTemplate does more.
func CheckParams(params []engine.Param) error {
	_, err := arrange(params)
	return err
}

func compile(t *engine.Template) (*plan, error) {
	l, err := arrange(t.Params)
	if err != nil {
		return nil, err
	}
	var b planBuilder
	b.raw(`,"type":"template","template":{"name":`).quoted(t.Name)
	b.raw(`,"language":{"code":`).quoted(t.Language).raw(`}`)
	b.components(l)
	b.raw(`}}`)
	return b.plan(), nil
}

func arrange(params []engine.Param) (layout, error) {
	var l layout
	seen := make(map[Target]bool, len(params))
	for _, p := range params {
		t, err := ParseTarget(p.Target)
		if err != nil {
			return layout{}, err
		}
		if seen[t] {
			return layout{}, fmt.Errorf("parameter %s is given twice: leave one of them out", t)
		}
		seen[t] = true
		if err := l.add(place{Target: t, param: p}); err != nil {
			return layout{}, err
		}
	}
	return l, l.check()
}

func (l *layout) add(p place) error {
	switch {
	case p.Part == partBody:
		l.body = append(l.body, p)
	case p.Part == partButton:
		l.buttons = append(l.buttons, p)
	case p.Kind == KindText:
		l.header = append(l.header, p)
	case p.Kind == KindFilename:
		l.filename = &p
	case l.media != nil:
		return fmt.Errorf("parameters %s and %s exclude each other: a template has one header", l.media, p)
	default:
		l.media = &p
	}
	return nil
}

func (l *layout) check() error {
	slices.SortFunc(l.buttons, func(a, b place) int { return cmp.Compare(a.Index, b.Index) })
	for i, b := range l.buttons {
		if b.Kind == KindButton {
			return fmt.Errorf("parameter %s does not say what the button is: write %[1]s.url, %[1]s.quick_reply or %[1]s.copy_code", b)
		}
		if i > 0 && l.buttons[i-1].Index == b.Index {
			return fmt.Errorf("parameters %s and %s are the same button: leave one of them out", l.buttons[i-1], b)
		}
	}
	if l.media != nil && len(l.header) > 0 {
		return fmt.Errorf("parameters %s and %s exclude each other: a template has one header", l.media, l.header[0])
	}
	if l.filename != nil && (l.media == nil || l.media.Kind != KindDocument) {
		return errors.New("parameter header.document.filename needs header.document")
	}
	if len(l.header) > 1 {
		return fmt.Errorf("parameters %s and %s exclude each other: a header has one variable", l.header[0], l.header[1])
	}
	return checkText(l.body)
}

// checkText sorts positions, since Meta takes them in order and without names.
func checkText(body []place) error {
	slices.SortStableFunc(body, func(a, b place) int { return cmp.Compare(a.Index, b.Index) })
	for i, p := range body {
		if (p.Index == 0) != (body[0].Index == 0) {
			return fmt.Errorf("parameters %s and %s mix names and positions: a template has one or the other", body[0], p)
		}
		if p.Index != 0 && p.Index != i+1 {
			return fmt.Errorf("parameter %s is given but body.%d is not: positions leave no gap", p, i+1)
		}
	}
	return nil
}

// planBuilder gathers literals and values into segments.
type planBuilder struct {
	segments []segment
	before   []byte
	parts    int // components written so far
}

func (b *planBuilder) raw(s string) *planBuilder {
	b.before = append(b.before, s...)
	return b
}

func (b *planBuilder) quoted(s string) *planBuilder {
	b.before = appendJSON(b.before, s)
	return b
}

func (b *planBuilder) value(o op, p engine.Param) *planBuilder {
	if p.Column < 0 { // the same for everyone: part of the literal
		b.before = appendValue(b.before, o, p.Literal)
		return b
	}
	b.segments = append(b.segments, segment{before: string(b.before), op: o, param: p})
	b.before = b.before[:0]
	return b
}

func (b *planBuilder) plan() *plan {
	p := &plan{segments: append(b.segments, segment{before: string(b.before)})}
	for _, s := range p.segments {
		p.size += len(s.before)
	}
	return p
}

func (b *planBuilder) components(l layout) {
	if len(l.header) > 0 {
		b.component(`"type":"header"`).textParameters(l.header)
	}
	if l.media != nil {
		b.component(`"type":"header"`).mediaParameter(l)
	}
	if len(l.body) > 0 {
		b.component(`"type":"body"`).textParameters(l.body)
	}
	for _, p := range l.buttons {
		b.component(`"type":"button","sub_type":"` + kindNames[p.Kind] + `","index":"` + strconv.Itoa(p.Index) + `"`)
		b.buttonParameter(p)
	}
	if b.parts > 0 {
		b.raw(`]`)
	}
}

// component opens the component list with its first component: Meta wants no
// list at all for a template without variables.
func (b *planBuilder) component(head string) *planBuilder {
	if b.parts++; b.parts == 1 {
		b.raw(`,"components":[`)
	} else {
		b.raw(`,`)
	}
	return b.raw(`{` + head + `,"parameters":[`)
}

func (b *planBuilder) textParameters(places []place) {
	for i, p := range places {
		if i > 0 {
			b.raw(`,`)
		}
		b.raw(`{"type":"text",`)
		if p.Name != "" {
			b.raw(`"parameter_name":`).quoted(p.Name).raw(`,`)
		}
		b.raw(`"text":`).value(opText, p.param).raw(`}`)
	}
	b.raw(`]}`)
}

func (b *planBuilder) mediaParameter(l layout) {
	kind := kindNames[l.media.Kind]
	b.raw(`{"type":"`+kind+`","`+kind+`":{`).value(opMedia, l.media.param)
	if l.filename != nil {
		b.value(opFilename, l.filename.param)
	}
	b.raw(`}}]}`)
}

func (b *planBuilder) buttonParameter(p place) {
	switch p.Kind {
	case KindQuickReply:
		b.raw(`{"type":"payload","payload":`)
	case KindCopyCode:
		b.raw(`{"type":"coupon_code","coupon_code":`)
	default:
		b.raw(`{"type":"text","text":`)
	}
	b.value(opText, p.param).raw(`}]}`)
}

// append writes the plan with one recipient's values.
func (p *plan) append(dst []byte, values []string) []byte {
	for i := range p.segments {
		s := &p.segments[i]
		dst = append(dst, s.before...)
		if s.op != opNone {
			dst = appendValue(dst, s.op, s.param.Value(values))
		}
	}
	return dst
}

func appendValue(dst []byte, o op, v string) []byte {
	switch {
	case o == opText:
		return appendJSON(dst, v)
	case o == opFilename && v == "":
		return dst
	case o == opFilename:
		return appendJSON(append(dst, `,"filename":`...), v)
	case strings.HasPrefix(v, "https://"), strings.HasPrefix(v, "http://"):
		return appendJSON(append(dst, `"link":`...), v)
	default:
		return appendJSON(append(dst, `"id":`...), v)
	}
}
