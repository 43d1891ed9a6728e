package enroll

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// EnsureContext writes the context file of a first administrator, whose
// certificate create makes, if there is none, and corrects the server's address
// in one that is there.
func EnsureContext(path, server string, create func() (rest.ContextEntry, error)) error {
	e, err := rest.ReadContext(path)
	if _, statErr := os.Stat(path); err != nil && !errors.Is(statErr, os.ErrNotExist) {
		return err // somebody's file, even if it cannot be read
	}
	if err != nil {
		if e, err = create(); err != nil {
			return fmt.Errorf("making the administrator's certificate: %w", err)
		}
	} else if e.Server == server {
		return nil
	}
	e.Server = server
	return rest.WriteContext(path, e)
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
