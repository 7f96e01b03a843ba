package cloudapi

import (
	"context"
	"errors"
	"fmt"
	"net/url"
)

// NumberInfo is what Meta says of a business phone number. A field that the
// API did not give is its zero value.
type NumberInfo struct {
	ID          string // phone_number_id
	Display     string // the phone number as people see it
	Name        string // verified display name
	Quality     string // GREEN, YELLOW, RED or UNKNOWN
	Status      string // CONNECTED when it can send
	Limit       string // users per 24 h of the whole portfolio, TIER_250 to TIER_UNLIMITED
	MPS         int    // messages per second, both directions: 20, 80 or 1000
	Coexistence bool   // also in use on the WhatsApp Business app, which fixes 20 mps
	WebhookURL  string // where the number's webhooks go
}

// Throughputs by Meta's page of 2026-09: levels of a number, and the fixed one
// of a number that is on the Business app too, whatever its level says.
const (
	mpsStandard    = 80
	mpsHigh        = 1000
	mpsCoexistence = 20
)

const (
	basicNumberFields = "id,display_phone_number,verified_name,quality_rating,throughput"
	allNumberFields   = basicNumberFields + ",status,whatsapp_business_manager_messaging_limit,is_on_biz_app,webhook_configuration"
)

type wireNumber struct {
	ID         string `json:"id"`
	Display    string `json:"display_phone_number"`
	Name       string `json:"verified_name"`
	Quality    string `json:"quality_rating"`
	Status     string `json:"status"`
	Limit      string `json:"whatsapp_business_manager_messaging_limit"`
	OnApp      bool   `json:"is_on_biz_app"`
	Throughput struct {
		Level string `json:"level"`
	} `json:"throughput"`
	Webhooks struct {
		Number  string `json:"phone_number"`
		Account string `json:"whatsapp_business_account"`
		App     string `json:"application"`
	} `json:"webhook_configuration"`
}

// Number reads a number's settings. The error is ErrNotFound, ErrNotPermitted
// or ErrNoReads, or says that the question was not answered.
func (c *Client) Number(ctx context.Context, id string) (NumberInfo, error) {
	var w wireNumber
	err := c.get(ctx, id, c.numberURL(id, allNumberFields), &w)
	if errors.Is(err, ErrNoReads) { // perhaps only of one field: they come and go between versions
		err = c.get(ctx, id, c.numberURL(id, basicNumberFields), &w)
	}
	if err != nil {
		return NumberInfo{}, fmt.Errorf("read number %s: %w", id, err)
	}
	if w.ID == "" {
		return NumberInfo{}, fmt.Errorf("read number %s: answer without an id: %w", id, ErrNoReads)
	}
	return w.info(), nil
}

func (c *Client) numberURL(id, fields string) *url.URL {
	u := c.root.JoinPath(url.PathEscape(id))
	u.RawQuery = url.Values{"fields": {fields}}.Encode()
	return u
}

func (w wireNumber) info() NumberInfo {
	n := NumberInfo{
		ID: w.ID, Display: w.Display, Name: w.Name, Quality: w.Quality, Status: w.Status,
		Limit: w.Limit, Coexistence: w.OnApp,
	}
	switch {
	case w.OnApp:
		n.MPS = mpsCoexistence
	case w.Throughput.Level == "HIGH":
		n.MPS = mpsHigh
	case w.Throughput.Level == "STANDARD":
		n.MPS = mpsStandard
	}
	for _, u := range []string{w.Webhooks.Number, w.Webhooks.Account, w.Webhooks.App} { // Meta's order of override
		if u != "" {
			n.WebhookURL = u
			break
		}
	}
	return n
}
