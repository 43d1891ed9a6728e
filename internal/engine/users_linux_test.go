package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/users"
	"github.com/verge-edge/verge/internal/engine/volumes"
	"github.com/verge-edge/verge/internal/wire"
)

// Instances that are real processes: each has a user of its own, for as long as it is
// here, finds its files, volumes and secrets, and nothing of another or of the worker.
func TestInstancesHaveUsers(t *testing.T) {
	b := newBench(t)
	if i := b.info().Isolation; i == nil || !i.Users {
		t.Skipf("NOT TESTED: %+v", i)
	}
	one := serverOrder(t)
	one.Spec.Files = map[string]api.File{"conf/a.txt": {Content: "its own"}}
	one.Spec.Volumes = []api.Volume{{Path: "data", Name: "data"}, {Path: "mem", Tmpfs: 1 << 20},
		{Path: "ro", Name: "ro", ReadOnly: true}}
	one.Spec.Readiness = &api.Check{Exec: &api.ExecCheck{Command: []string{"sh", "-c",
		"id -u >user && echo kept >>data/x"}}}
	two := one
	two.Ordinal, two.ID = 1, "shop.web.1"
	spec := *one.Spec
	two.Spec = &spec
	// What an engine without users left is root's.
	old := filepath.Join(b.dir, volumes.Dir, "default", web0, "data")
	if err := os.MkdirAll(old, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(old, "x"), []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.apply(one, two)
	b.ready(0)
	b.until("the other is ready", func() bool { return b.status("shop.web.1").Ready })
	uid := func(id string) uint32 {
		st, err := os.Stat(filepath.Join(b.dir, state.InstancesDir, id, "work", "user"))
		if err != nil {
			t.Fatal(err)
		}
		return st.Sys().(*syscall.Stat_t).Uid
	}
	first, second := uid(web0), uid("shop.web.1")
	if first < users.FirstUser || second < users.FirstUser || first == second {
		t.Errorf("users %d and %d", first, second)
	}
	script := strings.ReplaceAll(`
		echo "id=$(id -u) $(grep -E '^(CapEff|NoNewPrivs)' /proc/self/status | tr -d '\t' | tr '\n' ' ')"
		echo "conf=$(cat conf/a.txt) data=$(head -n1 data/x) mem=$(echo m >mem/m && cat mem/m)"
		echo "dir=$(ls DIR | tr '\n' ' ')instances=$(ls DIR/instances)"
		touch ro/x 2>/dev/null && echo WRITTEN
		cat DIR/instances/shop.web.0/state.json DIR/instances/shop.web.0/log/output.log 2>/dev/null && echo READ
		kill -0 PID 2>/dev/null && echo REACHED
		ls -d /proc/PID 2>/dev/null && echo SEEN
		true`, "DIR", b.dir)
	script = strings.ReplaceAll(script, "PID", fmt.Sprint(b.status("shop.web.1").PID))
	want := fmt.Sprintf("id=%d CapEff:0000000000000000 NoNewPrivs:1 \nconf=its own data=before mem=m\n"+
		"dir=instances volumes instances=shop.web.0\n", first)
	text, last := b.output(b.session(script), func(string) bool { return false })
	if text != want {
		t.Errorf("a session says\n%s(%s)\nwant\n%s", text, last.Stderr, want)
	}
	// They keep them when the engine and the instance are started again.
	b.kill()
	b.start()
	pid := b.ready(0).PID
	if text, _ := b.output(b.session("id -u"),
		func(string) bool { return false }); strings.TrimSpace(text) != fmt.Sprint(first) {
		t.Errorf("after the engine was started again a session is of user %s, want %d", text, first)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.ready(pid)
	if text, _ := b.output(b.session("id -u; cat data/x | head -n1"),
		func(string) bool { return false }); text != fmt.Sprintf("%d\nbefore\n", first) {
		t.Errorf("after it was started again: %q", text)
	}
	// As root only where that is allowed.
	root := one
	as := *one.Spec
	as.User, root.Spec, root.Incarnation = "root", &as, 2
	b.apply(root, two)
	b.until("it is refused", func() bool {
		s := b.status(web0)
		return s.Phase == wire.PhaseRefused && strings.Contains(s.Why, "--allow-host-user root")
	})
	// What is gone has no user any more.
	b.apply()
	b.until("they are forgotten", func() bool { return b.status(web0).ID == "" && b.status("shop.web.1").ID == "" })
	for _, u := range []uint32{first, second} {
		if _, err := os.Stat(filepath.Join(users.ClaimsDir, fmt.Sprint(u))); err == nil {
			t.Errorf("user %d is still reserved", u)
		}
	}
}
