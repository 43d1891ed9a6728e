package upgrader

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

var (
	base   = installed{Path: "/usr/bin/verge", Size: 10, Modified: time.Unix(1000, 0)}
	one    = &program{Path: "/data/1/verge", SHA256: "1"}
	two    = &program{Path: "/data/2/verge", SHA256: "2"}
	quiet  = slog.New(slog.DiscardHandler)
	intact = func(path string) (string, error) { return filepath.Base(filepath.Dir(path)), nil }
)

// A worker goes through upgrades, and is started again by its machine at any moment: it is
// always one program that has proved itself, or the one that is on trial just now.
func TestWhichProgramGoesOn(t *testing.T) {
	var p programs
	start := func(self installed, marker string) (string, bool) {
		next, trying := p.begun(self, marker, intact, quiet)
		if next == nil {
			return "", trying
		}
		return next.Program, trying
	}
	try := func(key string, to *program, undo bool) {
		p.Base, p.Key, p.State, p.To, p.Undo, p.Owed = base, key, rpc.TryGoesOn, to, undo, true
	}
	expect := func(what, self, marker, program string, trying bool) {
		t.Helper()
		at := base
		at.Path = self
		if got, on := start(at, marker); got != program || on != trying {
			t.Errorf("%s: goes on as %q, trying %v; want %q, %v", what, got, on, program, trying)
		}
	}
	expect("nothing was brought", base.Path, "", "", false)
	try("a", one, false)
	expect("the new one starts", one.Path, "a", "", true)
	p.proved()
	expect("a boot", base.Path, "", one.Path, false)
	expect("and what it is then", one.Path, "a", "", false)
	// The second is interrupted, then tried again.
	try("b", two, false)
	expect("started again half-way", base.Path, "", one.Path, false)
	if p.State != rpc.TryFailed || !p.Again || !p.Owed || p.Runs != one {
		t.Errorf("half-way: %+v", p)
	}
	try("c", two, false)
	expect("the second starts", two.Path, "c", "", true)
	p.proved()
	expect("a boot", base.Path, "", two.Path, false)
	// Back to the first.
	try("d", p.Before, true)
	if p.path(p.To) != one.Path {
		t.Errorf("it goes back to %s", p.path(p.To))
	}
	expect("the first starts", one.Path, "d", "", true)
	p.proved()
	expect("a boot", base.Path, "", one.Path, false)
	if p.RunsKey != "" {
		t.Error("what was undone can be undone")
	}
	// A package is installed: that goes before what was brought.
	newer := base
	newer.Size++
	if got, _ := start(newer, ""); got != "" || p.Runs != nil {
		t.Errorf("goes on as %q instead of what was installed", got)
	}
	// A program that was damaged is not executed.
	try("e", one, false)
	p.proved()
	for _, sum := range []func(string) (string, error){
		func(string) (string, error) { return "2", nil },
		func(string) (string, error) { return "", errors.New("gone") },
	} {
		q := p
		if next, _ := q.begun(base, "", sum, quiet); next != nil || !q.Owed {
			t.Errorf("%v goes on", next)
		}
	}
}

func TestBackToWhatIsInstalled(t *testing.T) {
	p := programs{Base: base, Key: "a", State: rpc.TryGoesOn, To: one}
	p.proved()
	p.Key, p.State, p.To, p.Undo = "b", rpc.TryGoesOn, p.Before, true
	if p.path(p.To) != base.Path {
		t.Errorf("it goes back to %s", p.path(p.To))
	}
	p.proved()
	if next, _ := p.begun(base, "", intact, quiet); next != nil {
		t.Errorf("after a boot it is %s", next.Program)
	}
}

// A fetch that was broken off leaves nothing for good; what may be tried again stays.
func TestBrokenFetchIsRemoved(t *testing.T) {
	dir := t.TempDir()
	kept := programs{Base: base, Key: "a", State: rpc.TryDone, Runs: one, Before: two}
	for _, p := range []programs{{}, kept, {Base: base, Key: "b", State: rpc.TryFailed, Again: true, Before: two}} {
		if err := p.write(dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{one.SHA256, two.SHA256, "broken"} {
			if err := os.MkdirAll(filepath.Join(dir, programsDir, name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, programsDir, name, programName+".tmp"), []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Open(dir, Upgrades{}, "a", quiet); err != nil {
			t.Fatal(err)
		}
		var left []string
		list, err := os.ReadDir(filepath.Join(dir, programsDir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			left = append(left, e.Name())
		}
		want := map[string]int{"": 0, "a": 2, "b": 3}[p.Key]
		if len(left) != want || want == 2 && slices.Contains(left, "broken") {
			t.Errorf("%+v: there are %q", p, left)
		}
	}
}

// What cannot be read is moved aside, and what is installed goes on.
func TestDamagedProgramsFile(t *testing.T) {
	good := programs{Base: base, Key: "a", State: rpc.TryDone, Runs: one}
	dir := t.TempDir()
	if err := good.write(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, programsFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := readPrograms(dir); err != nil || p.Runs == nil || *p.Runs != *one || !p.Base.same(&base) {
		t.Fatalf("%+v, %v", p, err)
	}
	for how, bad := range map[string]string{
		"empty": "", "half": string(whole[:len(whole)/2]), "rubbish": "\x00\x01", "a list": "[]",
	} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		u, err := Open(dir, Upgrades{}, "", quiet)
		if err != nil || u.p.Key != "" {
			t.Errorf("%s: %v", how, err)
		}
		if left, err := os.ReadFile(path + ".damaged"); err != nil || string(left) != bad {
			t.Errorf("%s: %q, %v is kept", how, left, err)
		}
	}
	// Of a newer program it is that one's: nothing is decided without it.
	newer := strings.Replace(string(whole), `"v": 1`, `"v": 9`, 1)
	if err := os.WriteFile(path, []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Upgrades{}, "", quiet); err == nil || !strings.Contains(err.Error(), path+" is of form 9") {
		t.Error(err)
	}
	if left, err := os.ReadFile(path); err != nil || string(left) != newer {
		t.Errorf("it is %q, %v", left, err)
	}
}

func TestWhoMayUpgrade(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	sound := &wire.Program{OS: "linux", Arch: "amd64", SHA256: sum, Size: 10}
	open := func(may Upgrades) *Upgrader {
		u, err := Open(t.TempDir(), may, "", quiet)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for name, c := range map[string]struct {
		may       Upgrades
		q         rpc.UpgradeAsk
		inProcess bool
		want      string
	}{
		"nobody asked its operator": {Upgrades{}, rpc.UpgradeAsk{Key: "a", Program: sound}, false, rpc.TryRefused},
		"any":                       {Upgrades{Any: true}, rpc.UpgradeAsk{Key: "a", Program: sound}, false, rpc.TryGoesOn},
		"a name with a way out":     {Upgrades{Any: true}, rpc.UpgradeAsk{Key: "a", Program: &wire.Program{OS: "linux", Arch: "amd64", SHA256: "../../x", Size: 10}}, false, rpc.TryRefused},
		"nothing":                   {Upgrades{Any: true}, rpc.UpgradeAsk{Key: "a"}, false, rpc.TryRefused},
		"verge dev":                 {Upgrades{Any: true}, rpc.UpgradeAsk{Key: "a", Program: sound}, true, rpc.TryRefused},
		"back from nothing":         {Upgrades{}, rpc.UpgradeAsk{Key: "a", Undo: "b"}, false, rpc.TryDone},
	} {
		u := open(c.may)
		if got := u.Ask(&c.q, c.inProcess, "v1"); got.State != c.want {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
	// The same question again begins nothing new, another one waits.
	u := open(Upgrades{Any: true})
	u.Ask(&rpc.UpgradeAsk{Key: "a", Program: sound}, false, "v1")
	for _, key := range []string{"a", "b"} {
		if got := u.Ask(&rpc.UpgradeAsk{Key: key, Program: sound}, false, "v1"); got.State != rpc.TryGoesOn {
			t.Errorf("%s: %+v", key, got)
		}
	}
	if len(u.todo) != 1 {
		t.Errorf("%d are to be done", len(u.todo))
	}
}

// A new agent that nobody answers goes back; one that is answered stays.
func TestNewAgentProvesItself(t *testing.T) {
	for _, answered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			u, err := Open(t.TempDir(), Upgrades{}, "", quiet)
			if err != nil {
				t.Fatal(err)
			}
			u.p, u.trying = programs{Base: base, Key: "a", State: rpc.TryGoesOn, To: one, Owed: true}, true
			var next *Succession
			u.Succeed = func(s *Succession) { next = s }
			begun := time.Now()
			if answered {
				time.AfterFunc(wire.TrialWithin-time.Second, u.Answered)
			}
			u.watchTrial(t.Context())
			p, err := readPrograms(u.dir)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case answered && (next != nil || p.State != rpc.TryDone || p.Runs == nil || *p.Runs != *one || p.Owed):
				t.Errorf("answered: %v, %+v", next, p)
			case !answered && (next == nil || next.Program != base.Path || p.State != rpc.TryFailed || !p.Again || !p.Owed || time.Since(begun) != wire.TrialWithin):
				t.Errorf("not answered: %+v, %+v", next, p)
			}
		})
	}
}
