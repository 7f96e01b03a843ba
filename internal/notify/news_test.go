package notify

import "testing"

// Each word of the platform's has a title that says what it is about, and what
// opens an incident is resolved by its opposite about the same subject.
func TestWordsOfNews(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		kind, facts string
		mood        mood
		title, text string
	}{
		{TemplateFlagged, `{"template":"hello","reason":"FLAGGED","campaigns":["a","b"]}`, warning, "Template hello is flagged", "Reason: FLAGGED. Campaigns that send it: a, b."},
		{TemplateApproved, `{"template":"hello","campaigns":["a"]}`, solved, "Template hello may be sent", "Campaigns that stand still: a."},
		{TemplateApproved, `{"template":"hello"}`, solved, "Template hello may be sent", ""},
		{AccountWarned, `{"reason":"SCHEDULE_FOR_DISABLE"}`, alarm, "Business account 7 is in danger", "Reason: SCHEDULE_FOR_DISABLE."},
		{AccountFreed, `{}`, solved, "Business account 7 is free again", ""},
		{QualityWorse, `{"numbers":["9"],"reason":"FLAGGED"}`, warning, "Number 9 is judged worse", "Reason: FLAGGED."},
		{QualityBetter, `{"numbers":["9"]}`, solved, "Number 9 is judged better", ""},
		{LimitLowered, `{"limit":250,"was":2000}`, warning, "Business account 7 may reach fewer people", "250 people in 24 hours, over all numbers of its portfolio."},
		{LimitRaised, `{"limit":9223372036854775807}`, solved, "Business account 7 may reach more people", "There is no limit any more."},
	} {
		got := wordsOf(Notice{Kind: tc.kind, Subject: "account:7", Facts: []byte(tc.facts)})
		if got.mood != tc.mood || got.title != tc.title || got.text != tc.text {
			t.Errorf("%s: %+v", tc.kind, got)
		}
	}
}
