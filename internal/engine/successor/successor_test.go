package successor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

func TestFoundAgain(t *testing.T) {
	was := engineapi.EngineState{
		Changed: []wire.InstanceStatus{
			{ID: "a.b.0", Phase: wire.PhaseRunning, Ready: true, PID: 10},
			{ID: "a.b.1", Phase: wire.PhaseRunning, PID: 11},
			{ID: "a.b.2", Phase: wire.PhasePending},
			{ID: "a.b.3", Phase: wire.PhaseRunning, Ready: true, PID: 13, Draining: true},
		},
		Info: engineapi.EngineInfo{DataAddr: "1:1", Network: &wire.NetworkInfo{Mode: wire.NetworkOverlay}},
	}
	for name, c := range map[string]struct {
		change  func(s *engineapi.EngineState)
		gone    int // a process that has ended
		missing string
		n       int
	}{
		"all": {change: func(*engineapi.EngineState) {}, n: 2},
		"not there": {change: func(s *engineapi.EngineState) { s.Changed = s.Changed[1:] },
			missing: "a.b.0 is not there"},
		"another process": {change: func(s *engineapi.EngineState) { s.Changed[1].PID = 12 },
			missing: "is process 12 and was 11"},
		"ended meanwhile": {change: func(s *engineapi.EngineState) { s.Changed[1].PID = 12 }, gone: 11, n: 1},
		"not ready": {change: func(s *engineapi.EngineState) { s.Changed[0].Ready = false },
			missing: "not ready"},
		"what was not ready": {change: func(s *engineapi.EngineState) { s.Changed[1].Ready = true }, n: 2},
		"what was draining":  {change: func(s *engineapi.EngineState) { s.Changed = s.Changed[:3] }, n: 2},
		"no data port": {change: func(s *engineapi.EngineState) { s.Info.DataAddr = "" },
			missing: "data port"},
		"another network":        {change: func(s *engineapi.EngineState) { s.Info.Network = &wire.NetworkInfo{Mode: "loopback"} }, missing: "overlay"},
		"nothing of the network": {change: func(s *engineapi.EngineState) { s.Info.Network = nil }, missing: "overlay"},
	} {
		is := was
		is.Changed = append([]wire.InstanceStatus(nil), was.Changed...)
		c.change(&is)
		n, missing := found(was, is, func(pid int) bool { return pid != c.gone })
		if n != c.n || (c.missing == "") != (missing == "") || !strings.Contains(missing, c.missing) {
			t.Errorf("%s: %d, %q, want %d, %q", name, n, missing, c.n, c.missing)
		}
	}
}

func TestTryProgram(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := script("good", "#!/bin/sh\n[ \"$*\" != 'version -o json' ] || echo '{\"client\": \"v3\", \"handover\": "+
		"7, \"more\": 1}'\n", 0o700)
	if v, takes, err := Try(t.Context(), good, ""); err != nil || v != "v3" || takes != 7 {
		t.Errorf("%q, %d, %v", v, takes, err)
	}
	older := script("older", "#!/bin/sh\necho '{\"client\": \"v1\"}'\n", 0o700)
	if v, takes, err := Try(t.Context(), older, ""); err != nil || v != "v1" || takes != 1 {
		t.Errorf("%q, %d, %v", v, takes, err)
	}
	sum, err := checksum(good)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Try(t.Context(), good, strings.ToUpper(sum)); err != nil {
		t.Error(err)
	}
	for _, c := range [][3]string{
		{good, strings.Repeat("0", 64), "and not 0000"},
		{"good", "", "no absolute path"},
		{dir, "", "can be executed"},
		{filepath.Join(dir, "none"), "", "no such file"},
		{script("data", "verge v3", 0o600), "", "can be executed"},
		{script("other", "#!/bin/sh\necho nginx 3\n", 0o700), "", "says \"nginx 3"},
		{script("silent", "#!/bin/sh\necho '{}'\n", 0o700), "", "says \"{}"},
		{script("fails", "#!/bin/sh\necho '{\"client\": \"v3\"}'\nexit 1\n", 0o700), "", "exit status 1"},
	} {
		if v, _, err := Try(t.Context(), c[0], c[1]); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%q: %q, %v, want %q", c[0], v, err, c[2])
		}
	}
}
