package cloudapi

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

// newsOf decodes one change of account 1022, said at second 1750030073.
func newsOf(t *testing.T, field, value string) []engine.News {
	t.Helper()
	d := decodeTest(t, fmt.Sprintf(`{"entry":[{"id":"1022","time":1750030073,"changes":[{"field":%q,"value":%s}]}]}`, field, value))
	if len(d.events) != 1 || d.events[0].Kind != field || string(d.events[0].Body) != value {
		t.Fatalf("events %+v, want the change as it came", d.events)
	}
	return d.events[0].News
}

func TestNews(t *testing.T) {
	t.Parallel()
	at := time.Unix(1750030073, 0)
	template := func(bears engine.Bearing, word, reason string) []engine.News {
		return []engine.News{{
			About: engine.AboutTemplate, Bears: bears, At: at, Account: "1022", Template: "hello", Language: "en_US", Word: word,
			Reason: "Meta says that the template is " + reason, Advice: templateEvents[word].advice,
		}}
	}
	account := func(bears engine.Bearing, word, reason string) []engine.News {
		return []engine.News{{
			About: engine.AboutAccount, Bears: bears, At: at, Account: "1022", Word: word,
			Reason: "Meta says of the business account: " + reason, Advice: adviceAccount,
		}}
	}
	limit := func(n int64) engine.News {
		return engine.News{About: engine.AboutLimit, At: at, Account: "1022", Limit: n}
	}
	named := `"message_template_id":1,"message_template_name":"hello","message_template_language":"en_US"`
	for _, tc := range []struct {
		field, value string
		want         []engine.News
	}{
		{"message_template_status_update", `{"event":"PAUSED",` + named + `,"reason":"NONE","other_info":{"title":"FIRST_PAUSE"}}`, template(engine.BearsStop, "PAUSED", "PAUSED (FIRST_PAUSE)")},
		{"message_template_status_update", `{"event":"REJECTED",` + named + `,"reason":"ABUSIVE_CONTENT"}`, template(engine.BearsStop, "REJECTED", "REJECTED (ABUSIVE_CONTENT)")},
		{"message_template_status_update", `{"event":"DISABLED",` + named + `,"reason":null}`, template(engine.BearsStop, "DISABLED", "DISABLED")},
		{"message_template_status_update", `{"event":"IN_APPEAL",` + named + `}`, template(engine.BearsStop, "IN_APPEAL", "IN_APPEAL")},
		{"message_template_status_update", `{"event":"FLAGGED",` + named + `}`, template(engine.BearsWarning, "FLAGGED", "FLAGGED")},
		{"message_template_status_update", `{"event":"APPROVED",` + named + `}`, template(engine.BearsGo, "APPROVED", "APPROVED")},
		{"message_template_status_update", `{"event":"PENDING",` + named + `}`, template(engine.BearsNothing, "PENDING", "PENDING")},
		{"message_template_status_update", `{"event":"LEVITATED",` + named + `}`, template(engine.BearsNothing, "LEVITATED", "LEVITATED")},
		{"message_template_status_update", `{"event":"PAUSED","message_template_name":7}`, nil},
		{"message_template_status_update", `{"event":"PAUSED"}`, nil},

		{
			"account_update", `{"event":"ACCOUNT_RESTRICTION","restriction_info":[{"restriction_type":"RESTRICTED_BIZ_INITIATED_MESSAGING","expiration":"1764720000"}]}`,
			account(engine.BearsStop, "ACCOUNT_RESTRICTION", "ACCOUNT_RESTRICTION (RESTRICTED_BIZ_INITIATED_MESSAGING, until 2025-12-03T00:00:00Z)"),
		},
		{
			"account_update", `{"event":"ACCOUNT_RESTRICTION","restriction_info":[{"restriction_type":"RESTRICTED_ADD_PHONE_NUMBER_ACTION"}]}`,
			account(engine.BearsNothing, "ACCOUNT_RESTRICTION", "ACCOUNT_RESTRICTION (RESTRICTED_ADD_PHONE_NUMBER_ACTION)"),
		},
		{"account_update", `{"event":"ACCOUNT_RESTRICTION"}`, account(engine.BearsStop, "ACCOUNT_RESTRICTION", "ACCOUNT_RESTRICTION")},
		{"account_update", `{"event":"DISABLED_UPDATE","ban_info":{"waba_ban_state":"DISABLE"}}`, account(engine.BearsStop, "DISABLE", "DISABLED_UPDATE (DISABLE)")},
		{"account_update", `{"event":"DISABLED_UPDATE","ban_info":{"waba_ban_state":"SCHEDULE_FOR_DISABLE"}}`, account(engine.BearsWarning, "SCHEDULE_FOR_DISABLE", "DISABLED_UPDATE (SCHEDULE_FOR_DISABLE)")},
		{"account_update", `{"event":"DISABLED_UPDATE","ban_info":{"waba_ban_state":"REINSTATE"}}`, account(engine.BearsGo, "REINSTATE", "DISABLED_UPDATE (REINSTATE)")},
		{"account_update", `{"event":"ACCOUNT_VIOLATION","violation_info":{"violation_type":"SPAM"}}`, account(engine.BearsWarning, "ACCOUNT_VIOLATION", "ACCOUNT_VIOLATION (SPAM)")},
		{"account_update", `{"event":"VERIFIED_ACCOUNT"}`, account(engine.BearsNothing, "VERIFIED_ACCOUNT", "VERIFIED_ACCOUNT")},
		{"account_update", `{}`, nil},

		{
			"phone_number_quality_update", `{"display_phone_number":"+1 (555) 000-1111","event":"FLAGGED","current_limit":"TIER_2K"}`,
			[]engine.News{{
				About: engine.AboutNumber, Bears: engine.BearsWarning, At: at, Account: "1022", Phone: "15550001111", Word: "FLAGGED",
				Reason: "Meta says of the number: FLAGGED", Advice: "people block or report its messages: look at its quality in WhatsApp Manager",
			}, limit(2000)},
		},
		{"phone_number_quality_update", `{"event":"FLAGGED"}`, nil},
		{"business_capability_update", `{"max_daily_conversation_per_phone":1,"max_daily_conversations_per_business":2000}`, []engine.News{limit(2000)}},
		{"business_capability_update", `{"max_daily_conversations_per_business":"TIER_100K"}`, []engine.News{limit(100_000)}},
		{"business_capability_update", `{"max_daily_conversations_per_business":"TIER_UNLIMITED"}`, []engine.News{limit(engine.NoLimit)}},
		{"business_capability_update", `{"max_daily_conversation_per_business":-1}`, []engine.News{limit(engine.NoLimit)}},
		{"business_capability_update", `{"max_daily_conversations_per_business":"many"}`, nil},
		{"business_capability_update", `{"max_daily_conversations_per_business":0}`, nil},

		{
			"user_preferences", `{"user_preferences":[{"wa_id":"5511","category":"marketing_messages","value":"stop","timestamp":1750030000},` +
				`{"wa_id":5512,"category":"marketing_messages","value":"resume"},null,"x",{"user_id":"BR.1","category":"marketing_messages","value":"stop"},` +
				`{"wa_id":"5513","category":"calls","value":"stop"},{"wa_id":"5514","category":"marketing_messages","value":"perhaps"}]}`,
			[]engine.News{
				{About: engine.AboutPerson, At: time.Unix(1750030000, 0), Account: "1022", Phone: "5511", Word: "stop", Spare: engine.SpareForGood},
				{About: engine.AboutPerson, At: at, Account: "1022", Phone: "5512", Word: "resume", Spare: engine.SpareNoLonger},
			},
		},
		{"account_alerts", `{"alert_severity":"CRITICAL"}`, nil},
	} {
		if diff := cmp.Diff(tc.want, newsOf(t, tc.field, tc.value)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tc.field, tc.value, diff)
		}
	}
	partner := newsOf(t, "account_update", `{"event":"PARTNER_REMOVED","waba_info":{"waba_id":"77"}}`)
	if len(partner) != 1 || partner[0].Account != "77" || partner[0].Bears != engine.BearsStop {
		t.Errorf("news of another account than the entry's: %+v", partner)
	}
	untimed := decodeTest(t, `{"entry":[{"id":"1","changes":[{"field":"message_template_status_update","value":{"event":"PAUSED",`+named+`}}]}]}`)
	if got := untimed.events[0].News[0].At; !got.Equal(arrival) {
		t.Errorf("said at %v, want when it came", got)
	}
}
