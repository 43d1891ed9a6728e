package standing_test

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/policy/standing"
	"github.com/verge-edge/verge/internal/wire"
)

func TestWhatANamespaceAllows(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "none": "none", "ALL": "all", "cap_net_raw+writable-root+NET_RAW": "NET_RAW+writable-root",
		"Host-Root+all": "all+host-root", "host-user": "host-user",
	} {
		if got, err := standing.ParseAllow(text); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"+", "root", "NET_RAW+", "all+NET_RAW", "NET_RAW,MKNOD"} {
		if got, err := standing.ParseAllow(text); err == nil {
			t.Errorf("%s: %q", text, got)
		}
	}
	rights := []string{"NET_RAW", "writable-root"}
	for allow, forbidden := range map[string]string{"": "NET_RAW", "none": "NET_RAW writable-root", "all": "", "NET_RAW": "writable-root", "NET_RAW+writable-root": ""} {
		s := wire.Standing{Allow: allow}
		if got := strings.Join(s.Forbids(rights), " "); got != forbidden {
			t.Errorf("%q forbids %q, want %q", allow, got, forbidden)
		}
	}
	// What a process may be on the machine is never among all.
	rights = []string{"NET_RAW", "host-root", "host-user"}
	for allow, forbidden := range map[string]string{
		"": "NET_RAW host-root host-user", "none": "NET_RAW host-root host-user", "all": "host-root host-user", "host-user": "NET_RAW host-root",
		"host-root": "NET_RAW", "all+host-root": "", "all+host-user": "host-root",
	} {
		s := wire.Standing{Allow: allow}
		if got := strings.Join(s.Forbids(rights), " "); got != forbidden {
			t.Errorf("%q forbids %q, want %q", allow, got, forbidden)
		}
	}
	if s := (wire.Standing{Allow: "all"}); s.With([]string{"host-root"}) != "all+host-root" {
		t.Errorf("%s", s.With([]string{"host-root"}))
	}
	if s := (wire.Standing{Weight: 3, MaxPriority: 5}); s.With([]string{"NET_RAW"}) != "NET_RAW+writable-root" || s.String() != "weight=3,max-priority=5" {
		t.Errorf("%s, %s", s.With([]string{"NET_RAW"}), s)
	}
}
