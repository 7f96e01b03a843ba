// Package sim is a WhatsApp Cloud API for rehearsals and tests. Its secret is
// how Meta's platform behaves towards a sender: which requests it refuses and
// with which words, how it limits a number and a pair, when and in what order
// status webhooks arrive, and how it looks when it fails.
//
// It promises that every request received in full has one line in the ledger,
// in the order of arrival on one monotonic clock, and that a message's fate
// (delivered, read, failed, late, twice) follows from the seed, the recipient
// and the callback data alone, whatever the scheduling.
//
// It never imports the code it judges, never reaches a real network but the
// webhook receiver it was given, and never logs a phone number, a token or a
// message id.
package sim
