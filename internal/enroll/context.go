package enroll

import (
	"fmt"

	"github.com/verge-edge/verge/internal/rest"
)

// EnsureContext writes the context file of a first administrator, whose
// certificate create makes, if there is none, and corrects the server's address
// in one that is there.
func EnsureContext(path, server string, create func() (rest.ContextEntry, error)) error {
	e, err := rest.ReadContext(path)
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
