package notify

import (
	"fmt"
	"math"
	"strings"
)

// news are the words for what the platform says of templates, accounts and
// numbers.
func (f facts) news(n Notice) words {
	account := "Business account " + strings.TrimPrefix(strings.TrimPrefix(n.Subject, "account:"), "limit:")
	switch n.Kind {
	case TemplateFlagged:
		return words{warning, "Template " + f.Template + " is flagged", strings.TrimSpace(reason(f.Reason) + " " + f.use("Campaigns that send it")), ""}
	case TemplateApproved:
		w := words{solved, "Template " + f.Template + " may be sent", f.use("Campaigns that stand still"), ""}
		if len(f.Campaigns) > 0 {
			w.advice = "They do not go on by themselves: weir campaign resume NAME"
		}
		return w
	case AccountWarned:
		return words{alarm, account + " is in danger", reason(f.Reason), "Its numbers send still."}
	case AccountFreed:
		return words{
			solved, account + " is free again", reason(f.Reason),
			"What was stopped stays so until you say: weir number set ID --enable",
		}
	case QualityWorse:
		return words{warning, f.numbers(n) + " is judged worse", reason(f.Reason), f.Advice}
	case QualityBetter:
		return words{solved, f.numbers(n) + " is judged better", reason(f.Reason), f.Advice}
	case LimitLowered:
		return words{warning, account + " may reach fewer people", f.limit(), "What goes beyond that, Meta refuses or fails: plan campaigns so."}
	default:
		return words{solved, account + " may reach more people", f.limit(), ""}
	}
}

func (f facts) use(what string) string {
	if len(f.Campaigns) == 0 {
		return ""
	}
	return what + ": " + list(f.Campaigns) + "."
}

func (f facts) limit() string {
	if f.Limit == math.MaxInt64 {
		return "There is no limit any more."
	}
	return fmt.Sprintf("%d people in 24 hours, over all numbers of its portfolio.", f.Limit)
}
