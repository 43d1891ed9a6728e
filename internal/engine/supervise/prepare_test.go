package supervise

import (
	"os"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire"
)

// What a container may do is what its descriptor says; one that is older than that has
// the root that it had.
func TestRightsOfContainers(t *testing.T) {
	t.Parallel()
	app, _, err := descriptor.Parse("f",
		[]byte("application: a\nservices: {web: {runtime: container, image: x, security: {add: net_raw, drop: "+
			"[KILL], new_privileges: true, seccomp: none}}}"))
	if err != nil {
		t.Fatal(err)
	}
	s := securityOf(app.Services["web"])
	if got := strings.Join(s.Capabilities, " "); s.WritableRoot || !s.NewPrivileges || !s.NoSeccomp ||
		got != "CHOWN DAC_OVERRIDE FOWNER FSETID NET_BIND_SERVICE NET_RAW SETGID SETUID" ||
		strings.Join(s.Extra, " ") != "NET_RAW" {
		t.Errorf("%+v", s)
	}
	if s := securityOf(&api.Service{}); !s.WritableRoot || s.NewPrivileges || s.NoSeccomp ||
		len(s.Capabilities) != len(api.DefaultCapabilities()) {
		t.Errorf("an old one: %+v", s)
	}
}

func TestHintAtAReadOnlyRoot(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		log  string
		root string
		code int
		hint bool
	}{
		"told by a shell": {"sh: can't create /x: Read-only file system\n", api.RootReadOnly, 1, true},
		"told by Go": {strings.Repeat("well\n", 5000) + "open /x: read-only file system\nexit\n",
			api.RootReadOnly, 2, true},
		"told long ago": {"read-only file system\n" + strings.Repeat("well\n", 5000), api.RootReadOnly, 2,
			false},
		"nothing of the kind":  {"out of luck\n", api.RootReadOnly, 1, false},
		"it did not fail":      {"read-only file system\n", api.RootReadOnly, 0, false},
		"its root is writable": {"read-only file system\n", api.RootWritable, 1, false},
	} {
		in := &Instance{layout: state.Layout{Dir: t.TempDir()}}
		in.rec.Order.Spec = &api.Service{Runtime: api.Container, Security: api.Security{Root: x.root}}
		if err := os.Mkdir(in.layout.Log(), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := logfile.Open(in.layout.Log())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(x.log); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if got := in.readOnlyHint(wire.Exit{Code: x.code}); strings.Contains(got,
			"security: {root: writable}") != x.hint {
			t.Errorf("%s: %q", name, got)
		}
		if err := os.RemoveAll(in.layout.Dir); err != nil {
			t.Error(err)
		}
	}
}
