package engine

// verdict is what an answer says of the platform, for its breakers.
type verdict uint8

const (
	saysNothing  verdict = iota // no call was made, for a reason of ours; or only this pair is too fast, or this number away
	saysUp                      // it answered, whatever it said of the message
	saysThrottle                // it is up, and the number too fast: neutral to the share of failures
	saysDown                    // it failed, or a request was written and no answer that can be read came back
	saysLocal                   // the trouble is on this side
)

// verdict tells upstream, local and recipient trouble apart. Only upstream
// trouble counts against the platform: a refused message is proof that it is
// up, and what this node cannot reach is this node's.
func (a Answer) verdict() verdict {
	switch a.Action {
	case Release:
		if a.Local {
			return saysLocal
		}
		return saysNothing
	case Reconcile:
		if a.Local {
			return saysLocal
		}
		return saysDown
	case Reschedule:
		switch {
		case a.Scope >= ScopeNumber:
			return saysDown
		case a.Scope == ScopePair:
			return saysNothing
		}
	case Pause:
		if !a.Throttled {
			return saysNothing
		}
		return saysThrottle
	case StopCampaign, StopNumber, Fail:
		if a.Local {
			return saysNothing
		}
	}
	return saysUp
}

// probeEnd is what an answer to a probe comes to.
func (a Answer) probeEnd() ProbeEnd {
	switch v := a.verdict(); {
	case v == saysThrottle:
		return ProbeThrottled
	case v == saysDown:
		return ProbeFailed
	case v == saysUp, a.Action == Reschedule, a.Action == Pause:
		return ProbeAnswered
	default:
		return ProbeUnused
	}
}
