package daemonflags

import (
	"strings"
	"testing"
)

func TestToLabel(t *testing.T) {
	for host, want := range map[string]string{
		"edge-1": "edge-1", "Node_7.example.org": "node-7", "10-0-0-1": "w-10-0-0-1", "": "w", "---": "w",
		"ünal":                  "nal",
		strings.Repeat("a", 80): strings.Repeat("a", 63),
	} {
		got := toLabel(host)
		if got != want || !dnsLabel().MatchString(got) {
			t.Errorf("%q became %q, want %q", host, got, want)
		}
	}
}
