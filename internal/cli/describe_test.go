package cli

import (
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

// How something ended is said with what is known of it, and no more.
func TestExitInWords(t *testing.T) {
	a := &app{}
	for want, e := range map[string]*wire.Exit{
		"":                                     nil,
		"code 3":                               {Code: 3},
		"signal TERM (code 143)":               {Code: 143, Signal: "TERM"},
		"killed: out of memory":                {Code: 137, Signal: "KILL", OOM: true},
		"liveness: no; code 1":                 {Code: 1, Why: "liveness: no"},
		"its shim; code unknown":               {Code: -1, Unknown: true, Why: "its shim"},
		"exit code unknown: nobody saw it end": {Code: -1, Unknown: true},
	} {
		if got := a.exit(e); got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
}
