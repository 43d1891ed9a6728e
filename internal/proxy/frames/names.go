package frames

import (
	"net/http"
	"strings"
)

// MaxNames of headers are remembered by a connection.
const MaxNames = 128

// Names are the names of headers that a connection has seen, as Go writes them.
type Names map[string]string

// Of is the name of a header of HTTP/2 as Go writes it.
func (n Names) Of(field string) string {
	name, ok := n[field]
	if !ok {
		name = http.CanonicalHeaderKey(field)
		if len(n) < MaxNames {
			n[strings.Clone(field)] = name
		}
	}
	return name
}
