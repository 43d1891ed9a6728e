package enroll

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

// EnsureContext writes the context file of a first administrator, with a certificate from create,
// if there is none, and corrects the server's address in an existing one. It is rewritten when
// half of its certificate's life is over, or when it does not trust the present authorities ca
// (PEM). A file that somebody has replaced, with a token or other certificates, stays.
func EnsureContext(path, server, ca string, now time.Time, create func() (client.Context, error)) error {
	e, err := client.ReadContext(path)
	if _, statErr := os.Stat(path); err != nil && !errors.Is(statErr, os.ErrNotExist) {
		// Somebody's file, even if it cannot be read.
		why := err.Error()
		if p := new(wire.Problem); errors.As(err, &p) {
			why = p.Detail
		}
		return wire.Problemf(0, "bad-context",
			"put back what was there, or remove the file: the next start makes another one with a new certificate",
			"the context file of this node cannot be used", "%s", why)
	}
	stale := false
	if err == nil && e.Cert != "" {
		renewAt, cerr := pki.RenewAtOf(e.Cert)
		stale = cerr == nil && !now.Before(renewAt) || strings.TrimSpace(e.CA) != strings.TrimSpace(ca)
	}
	if err != nil || stale {
		next, err := create()
		if err != nil {
			return fmt.Errorf("making the administrator's certificate: %w", err)
		}
		if stale {
			next.Name = e.Name
		}
		e = next
	} else if e.Server == server {
		return nil
	}
	e.Server = server
	return client.WriteContext(path, e)
}

// Free says whether an address can be listened on, before anything is done that
// could not be undone, such as spending a join token. flag is how it was set.
func Free(addr, flag string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return wire.Problemf(0, "address-taken", "stop the process that uses it, or choose another address with "+flag,
			"an address cannot be listened on", "%v", err)
	}
	return l.Close()
}
