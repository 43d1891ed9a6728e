package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Codes of problems that a client makes itself.
const (
	// CodeUnreachable: nobody answered, now; it may be worth trying again.
	CodeUnreachable = "unreachable"
	// CodeTLS: the two sides do not trust each other.
	CodeTLS = "tls"
)

// transportProblem is a problem that keeps its cause for errors.Is and As.
type transportProblem struct {
	problem *wire.Problem
	cause   error
}

// Error is the problem's text; the cause is in it in words.
func (e *transportProblem) Error() string { return e.problem.Error() }

// Unwrap gives both.
func (e *transportProblem) Unwrap() []error { return []error{e.problem, e.cause} }

// transportError says what to do about a request that got no answer.
func (c *Conn) transportError(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	p := tlsProblem(c.host, err)
	if p == nil {
		p = wire.Problemf(0, CodeUnreachable, unreachableRemedy, "the server at "+c.host+" does not answer", "%s",
			why(err))
	}
	return &transportProblem{problem: p, cause: err}
}

const unreachableRemedy = "is it running? start it (verge root, verge dev), or choose another context: verge " +
	"context list"

// why says in a few words why there was no answer.
func why(err error) string {
	var dns *net.DNSError
	var network net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to it"
	case errors.As(err, &dns):
		return "its name cannot be resolved: " + dns.Err
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, syscall.ECONNRESET), strings.HasSuffix(err.Error(), "EOF"):
		return "the connection was closed before an answer came"
	}
	return innermost(err).Error()
}

// tlsProblem recognises that the two sides do not trust each other, else nil.
func tlsProblem(host string, err error) *wire.Problem {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	title := "no trusted connection to " + host
	switch {
	case errors.As(err, &authority):
		return wire.Problemf(0, CodeTLS,
			"if this root was made anew, or its authority replaced (verge ca rotate), use its new context file "+
				"(verge context use FILE); else someone else answers there",
			title, "its certificate is not from the authority that this context trusts")
	case errors.As(err, &name):
		return wire.Problemf(0, CodeTLS,
			"start it with --advertise and the host that you use, or set server_name in the context file",
			title, "its certificate is for another name: %v", name)
	case errors.As(err, &invalid):
		return wire.Problemf(0, CodeTLS, "compare the clocks of both machines",
			title, "its certificate is not valid now: %v", invalid)
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return wire.Problemf(0, CodeTLS,
			"check the port in the context file: the API is at "+rpc.RootAPIPort+" (root) or "+rpc.ClusterAPIPort+
				" (cluster) by default",
			title, "what answers there does not speak TLS")
	case strings.Contains(err.Error(), "remote error: tls:"):
		// crypto/tls does not export the type of an alert.
		return wire.Problemf(0, CodeTLS,
			"the certificate of this context is not from this root, has expired, or was revoked: use its new context "+
				"file (verge context use FILE)",
			title, "it refuses us: %v", innermost(err))
	}
	return nil
}

func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
