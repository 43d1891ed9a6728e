package dotenv

import (
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/dotenv"
)

// TestLibraryDoubles keeps the reason why compose-go's dotenv is not used: values that refer to
// those above them grow without a bound. If this fails, look at the library again.
func TestLibraryDoubles(t *testing.T) {
	text := "A0=xxxxxxxx\n" + doubled()
	text = strings.Join(strings.SplitAfter(text, "\n")[:17], "")
	vars, err := dotenv.UnmarshalWithLookup(text, nil)
	if err != nil || len(vars["A16"]) != 8<<16 {
		t.Errorf("%d bytes became %d, %v: compose-go bounds values now", len(text), len(vars["A16"]), err)
	}
}
