// Package chaos judges what a fleet of nodes did while it was being broken.
// Its secret is how each promise of Weir is read off the traces that a run
// leaves: the simulated platform's ledger and webhooks, the rows at the end,
// what the database recorded on the way, and what the suite did to the fleet.
//
// It promises that every property is a pure function of a [History], so that a
// run can be judged again years later, and that the judge shares no code with
// the judged: it knows the statuses' rank and the callback ids' form by itself.
// It never explains a violation away: what a fault permits (a standby that
// lost its last commits may send those again) is in the history as a mark.
//
// The tests of this package are the suite that makes histories: real nodes, a
// real Postgres each run, the platform's simulator, and every link through a
// proxy that can be cut.
package chaos
