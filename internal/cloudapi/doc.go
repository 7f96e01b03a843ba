// Package cloudapi hides Meta's wire: the WhatsApp Business Cloud API on the
// way out and its webhooks on the way in. Meta's words, codes and shapes stop
// here; what leaves this package is said in engine's words.
//
// It promises that one Send puts at most one request on the wire, that an
// answer of Release means not one byte of the request was written or a redirect
// turned it away, that an answer of Accept carries the platform's message id, and that a webhook
// answered with 200 has been stored.
//
// It never retries, never follows a redirect, never decides a policy, and
// never puts a phone number, a token or a message id into a log, a metric or
// an error. (A message id decodes to the recipient's phone number.)
package cloudapi
