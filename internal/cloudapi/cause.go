package cloudapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// cause puts a transport error into few fixed words. The error's own text stays
// here: it names addresses and differs from call to call, and titles are
// grouped and shown to operators.
func cause(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &dns):
		return "the API's host name does not resolve"
	case errors.As(err, &op) && op.Op == "dial":
		return "connect: " + reason(err)
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return "the proxy did not connect"
	case errors.As(err, &cert), errors.As(err, &unknown):
		return "the API's certificate is not trusted"
	case errors.As(err, &record):
		return "the API's address does not speak TLS"
	case strings.Contains(err.Error(), "TLS handshake timeout"): // net/http's is not exported
		return "TLS handshake timed out"
	default:
		return reason(err)
	}
}

func reason(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, errFenced):
		return "this node may no longer send for the number"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return "timed out"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "network unreachable"
	case errors.Is(err, errEnded), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		strings.Contains(err.Error(), "server closed idle connection"):
		return "connection closed"
	case strings.Contains(err.Error(), "malformed HTTP"):
		return "answer is not HTTP"
	default:
		return "connection failed"
	}
}
