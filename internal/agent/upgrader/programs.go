package upgrader

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// programsFile is what is known of the programs that a cluster has brought here, and
	// programsDir has them, each in a folder named by its checksum.
	programsFile = "programs.json"
	programsDir  = "programs"
	programName  = "verge"
	maxPrograms  = 64 << 10
	// ProgramEnv is set by an agent that lets another program go on in its place.
	ProgramEnv = "VERGE_PROGRAM"
)

// Succession ends Run where another program is to go on in this process. It is no failure.
type Succession struct {
	// Program to execute.
	Program string
	// Child is an engine that this process is the parent of, 0 for none.
	Child int64
	key   string
}

// Env is what the program needs in its environment.
func (s *Succession) Env() string {
	return ProgramEnv + "=" + s.key + ":" + strconv.FormatInt(s.Child, 10)
}

// TakeMarker is the key that a predecessor in this process has left, "" for none. What it
// was the parent of this process is, too, and it must wait for its end: a process that
// nobody waits for stays.
func TakeMarker() (key string) {
	key, child, ok := strings.Cut(os.Getenv(ProgramEnv), ":")
	_ = os.Unsetenv(ProgramEnv) // it is not for the engine; fails for names with a = only
	if pid, err := strconv.Atoi(child); ok && err == nil && pid > 0 {
		if p, err := os.FindProcess(pid); err == nil {
			go func() { _, _ = p.Wait() }() // ends with it or with this process; it may be another's by now
		}
	}
	return key
}

// Error says what is to be done.
func (s *Succession) Error() string { return "the agent goes on as " + s.Program }

// program is a file that can be an agent and an engine. Of one that the machine has of
// itself there is no checksum.
type program struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
}

// installed is the program that the machine itself starts, as it looked.
type installed struct {
	Path     string    `json:"path"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

func lookAt(path string) (i installed, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return i, err
	}
	return installed{Path: path, Size: st.Size(), Modified: st.ModTime().Round(0).UTC()}, nil
}

// same says whether it is the same file, as far as one sees without reading it.
func (i *installed) same(o *installed) bool {
	return i.Path == o.Path && i.Size == o.Size && i.Modified.Equal(o.Modified)
}

// programs is the content of programsFile: a plan that is on disk before its first step.
// The zero value is a worker to which nothing was brought.
type programs struct {
	V int `json:"v"`
	// Base is what the machine started when Runs was first brought. Another one, of a
	// package that was installed since, goes before Runs.
	Base installed `json:"base"`
	// Runs has proved itself and is what the agent goes on as; nil is Base. Before is
	// what ran until RunsKey made it so, nil is Base.
	Runs    *program `json:"runs,omitempty"`
	RunsKey string   `json:"runs_key,omitempty"`
	Before  *program `json:"before,omitempty"`
	// Key names the last try, State (see rpc.UpgradeTry) is how it ended, or TryGoesOn.
	Key   string `json:"key,omitempty"`
	State string `json:"state,omitempty"`
	Why   string `json:"why,omitempty"`
	// Again: what failed may work another time.
	Again bool `json:"again,omitempty"`
	// To is what is tried while it goes on, nil is Base. Undo: it is what was before.
	To   *program `json:"to,omitempty"`
	Undo bool     `json:"undo,omitempty"`
	// Owed: the engine may be of another program than the agent that goes on.
	Owed bool `json:"owed,omitempty"`
}

var programsKind = &statefile.Kind{What: "what the cluster brought", Max: maxPrograms, Version: wire.Version}

func readPrograms(dir string) (p programs, err error) {
	_, err = programsKind.Read(filepath.Join(dir, programsFile), &p)
	if errors.Is(err, os.ErrNotExist) {
		return programs{}, nil
	}
	if err != nil {
		return programs{}, err
	}
	return p, nil
}

func (p *programs) write(dir string) error {
	p.V = wire.Version
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := programsKind.Put(filepath.Join(dir, programsFile), b, atomicfile.Write); err != nil {
		return fmt.Errorf("noting which program this worker is: %w", err)
	}
	return nil
}

// path of a program, nil is Base.
func (p *programs) path(of *program) string {
	if of == nil {
		return p.Base.Path
	}
	return of.Path
}

// failed ends the try that goes on: what ran before it goes on, and the engine goes back
// to it.
func (p *programs) failed(why string, again bool) {
	p.State, p.Why, p.Again, p.To, p.Undo, p.Owed = rpc.TryFailed, why, again, nil, false, true
}

// proved ends the try that goes on: what was tried runs.
func (p *programs) proved() {
	before := p.Runs
	p.Runs, p.RunsKey, p.Before = p.To, p.Key, before
	if p.Undo {
		p.RunsKey, p.Before = "", nil // there is nothing further back
	}
	p.State, p.Why, p.Again, p.To, p.Undo, p.Owed = rpc.TryDone, "", false, nil, false, false
}

// begun settles which program goes on when an agent starts as self; marker is what
// ProgramEnv had. trying: it is a new one, that has to prove itself. next is another
// program that is to go on in its place.
func (p *programs) begun(self installed, marker string,
	sum func(path string) (string, error), log *slog.Logger) (next *Succession, trying bool) {
	if p.Key != "" && marker == p.Key {
		return nil, p.State == rpc.TryGoesOn
	}
	if p.State == rpc.TryGoesOn {
		p.failed("the worker was started again before the new program had proved itself", true)
	}
	if p.Runs == nil {
		return nil, false
	}
	if !self.same(&p.Base) {
		log.Info("another program was installed on this machine; it replaces the one from the cluster",
			"installed", self.Path, "brought", p.Runs.Path)
		p.Runs, p.RunsKey, p.Before = nil, "", nil
		return nil, false
	}
	if is, err := sum(p.Runs.Path); err != nil || is != p.Runs.SHA256 {
		log.Error("the program from the cluster is damaged; the installed one continues", "program", p.Runs.Path,
			"error", err)
		p.Runs, p.RunsKey, p.Before, p.Owed = nil, "", nil, true
		return nil, false
	}
	return &Succession{Program: p.Runs.Path, key: p.Key}, false
}

// tidy removes programs that nothing needs.
func (p *programs) tidy(dir string, log *slog.Logger) {
	needed := map[string]bool{}
	for _, x := range []*program{p.Runs, p.Before, p.To} {
		if x != nil {
			needed[x.SHA256] = true
		}
	}
	list, err := os.ReadDir(filepath.Join(dir, programsDir))
	if err != nil {
		return // there are none
	}
	for _, e := range list {
		if needed[e.Name()] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, programsDir, e.Name())); err != nil {
			log.Warn("removing a program that nothing needs", "error", err)
		}
	}
}
