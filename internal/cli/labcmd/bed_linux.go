package labcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cli"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/emul"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments"
	pods "github.com/verge-edge/verge/internal/lab/experiments/bed"
	"github.com/verge-edge/verge/internal/lab/experiments/oakestra"
	"github.com/verge-edge/verge/internal/lab/experiments/study"
)

// testBed is the lab of this machine. getenv reads the environment.
func testBed(getenv func(string) string) *Lab {
	b := bed{getenv}
	return &Lab{
		Up: b.up, Down: b.down, Status: b.status, Set: b.set, Shell: b.shell,
		Switch: func(ctx context.Context, config, socket string) error {
			emul.Quiet()
			return emul.Serve(ctx, config, socket)
		},
		WireGuard: oakestra.ServeWireGuard,
		Pod:       study.ServePod,
		Shared:    pods.ServeShared,
		List:      func() cli.Sheet { return experiments.Catalogue(experiments.All()) },
		Run:       b.run,
		Report:    func(_ context.Context, dir, to string) (string, error) { return experiments.Report(dir, to) },
	}
}

type bed struct{ getenv func(string) string }

func (b bed) options(say io.Writer) (lab.Options, error) {
	tool, err := os.Executable()
	if err != nil {
		return lab.Options{}, fmt.Errorf("find this program, which is the switch: %w", err)
	}
	verge, err := b.verge(tool)
	return lab.Options{Base: b.base(), Verge: verge, Tool: tool, Say: sayTo(say)}, err
}

// verge is the program that runs in the hosts: the one that has started this one, or that
// beside it, or in the PATH.
func (b bed) verge(tool string) (string, error) {
	if started := b.getenv(cli.StartedBy); started != "" {
		return started, nil
	}
	beside := filepath.Join(filepath.Dir(tool), "verge")
	if path, err := exec.LookPath(beside); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("verge")
	if err != nil {
		return "", cli.Error("lab", "verge, which runs in the hosts, is neither "+beside+" nor in the PATH",
			"start it as verge lab")
	}
	return filepath.Abs(path)
}

// base is where labs have their directories; "" is the usual place.
func (b bed) base() string { return b.getenv("VERGE_LAB_DIR") }

func (b bed) up(ctx context.Context, say io.Writer, file string) error {
	o, err := b.options(say)
	if err != nil {
		return err
	}
	f, err := lab.ReadFile(file)
	if err != nil {
		return err
	}
	l, err := lab.Up(ctx, f, o)
	if err != nil {
		return err
	}
	o.Say("the lab %s is up with %d hosts", l.Name(), len(f.Hosts))
	o.Say("next: verge lab status; verge lab shell HOST -- COMMAND; verge lab down")
	return nil
}

func (b bed) down(_ context.Context, say io.Writer, name string) error {
	if err := lab.Possible(); err != nil {
		return err
	}
	l, err := lab.Of(name, lab.Options{Base: b.base(), Say: sayTo(say)})
	if l == nil {
		return err
	}
	// One that is not whole is removed all the same.
	if err := l.Down(); err != nil {
		return err
	}
	sayTo(say)("the lab %s is gone", l.Name())
	return nil
}

// of is a lab that is whole.
func (b bed) of(name string) (*lab.Lab, error) {
	if err := lab.Possible(); err != nil {
		return nil, err
	}
	return lab.Of(name, lab.Options{Base: b.base()})
}

func (b bed) status(_ context.Context, name string) (cli.Sheet, error) {
	l, err := b.of(name)
	if err != nil {
		return nil, err
	}
	return l.Status()
}

func (b bed) set(_ context.Context, name string, c Link) (string, error) {
	l, err := b.of(name)
	if err != nil {
		return "", err
	}
	s := lab.LinkSpec{
		Latency: (*api.Duration)(c.Latency), RTT: (*api.Duration)(c.RTT), Jitter: (*api.Duration)(c.Jitter),
		Loss: (*lab.Share)(c.Loss), Rate: (*api.Bitrate)(c.Rate), Buffer: (*api.Bytes)(c.Buffer), Reorder: c.Reorder,
		Cut: c.Cut,
	}
	now, err := l.Set(c.A, c.B, s, c.OneWay)
	if err != nil {
		return "", err
	}
	return lab.Describe(now), nil
}

func (b bed) shell(_ context.Context, name, host string, command []string) error {
	l, err := b.of(name)
	if err != nil {
		return err
	}
	// verge is found in the hosts, wherever it lies.
	if o, err := b.options(io.Discard); err == nil {
		if err := os.Setenv("PATH", filepath.Dir(o.Verge)+":"+os.Getenv("PATH")); err != nil {
			return err
		}
	}
	err = l.Exec(host, command, os.Environ())
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: write the command as its parts, or as sh -c '…'", err)
	}
	return err
}

func (b bed) run(ctx context.Context, say io.Writer, r Run) (cli.Sheet, error, error) {
	o, err := b.options(say)
	var todo []experiment.Experiment
	for _, name := range r.Names {
		x, xerr := experiments.Find(name)
		if xerr == nil && x.Emulated {
			xerr = cmp.Or(lab.Possible(), err) // what computes only needs no verge
		}
		if xerr != nil {
			return nil, nil, xerr
		}
		todo = append(todo, x)
	}
	return runExperiments(ctx, todo, r, experiment.Options{Verge: o.Verge, Tool: o.Tool, Base: o.Base, Say: o.Say})
}
