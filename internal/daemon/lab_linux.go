package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cli"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/emul"
	"github.com/verge-edge/verge/internal/lab/experiments"
)

// labCommands puts the test bed behind the command line.
func labCommands() *cli.Lab {
	return &cli.Lab{
		Up: labUp, Down: labDown, Status: labStatus, Set: labSet, Shell: labShell,
		Switch: func(ctx context.Context, config, socket string) error {
			emul.Quiet()
			return emul.Serve(ctx, config, socket)
		},
		WireGuard: experiments.ServeWireGuard,
		Pod:       experiments.ServePod,
		List:      func() cli.Sheet { return experiments.Catalogue(experiments.All()) },
		Run:       labRun,
		Report:    func(_ context.Context, dir string) (string, error) { return experiments.Report(dir) },
	}
}

func labOptions(p cli.LabProcess) (lab.Options, error) {
	self, err := os.Executable()
	if err != nil {
		return lab.Options{}, fmt.Errorf("find this program, which runs in the hosts: %w", err)
	}
	return lab.Options{Base: labBase(), Verge: self, Say: labSay(p)}, nil
}

// labBase is where labs have their directories; "" is the usual place.
func labBase() string { return os.Getenv("VERGE_LAB_DIR") }

func labUp(ctx context.Context, p cli.LabProcess, file string) error {
	o, err := labOptions(p)
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

func labDown(_ context.Context, p cli.LabProcess, name string) error {
	if err := lab.Possible(); err != nil {
		return err
	}
	l, err := lab.Of(name, lab.Options{Base: labBase(), Say: labSay(p)})
	if l == nil {
		return err
	}
	// One that is not whole is removed all the same.
	if err := l.Down(); err != nil {
		return err
	}
	labSay(p)("the lab %s is gone", l.Name())
	return nil
}

// labOf is a lab that is whole.
func labOf(name string) (*lab.Lab, error) {
	if err := lab.Possible(); err != nil {
		return nil, err
	}
	return lab.Of(name, lab.Options{Base: labBase()})
}

func labStatus(_ context.Context, name string) (cli.Sheet, error) {
	l, err := labOf(name)
	if err != nil {
		return nil, err
	}
	return l.Status()
}

func labSet(_ context.Context, name string, c cli.LabLink) (string, error) {
	l, err := labOf(name)
	if err != nil {
		return "", err
	}
	s := lab.LinkSpec{
		Latency: (*api.Duration)(c.Latency), RTT: (*api.Duration)(c.RTT), Jitter: (*api.Duration)(c.Jitter),
		Loss: (*lab.Share)(c.Loss), Rate: (*api.Bitrate)(c.Rate), Buffer: (*api.Bytes)(c.Buffer), Reorder: c.Reorder, Cut: c.Cut,
	}
	now, err := l.Set(c.A, c.B, s, c.OneWay)
	if err != nil {
		return "", err
	}
	return lab.Describe(now), nil
}

func labShell(_ context.Context, name, host string, command []string) error {
	l, err := labOf(name)
	if err != nil {
		return err
	}
	// verge is found in the hosts, wherever this one lies.
	if self, err := os.Executable(); err == nil {
		if err := os.Setenv("PATH", filepath.Dir(self)+":"+os.Getenv("PATH")); err != nil {
			return err
		}
	}
	err = l.Exec(host, command, os.Environ())
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: write the command as its parts, or as sh -c '…'", err)
	}
	return err
}

func labRun(ctx context.Context, p cli.LabProcess, r cli.LabRun) (cli.Sheet, error, error) {
	o, err := labOptions(p)
	if err != nil {
		return nil, nil, err
	}
	var todo []experiments.Experiment
	for _, name := range r.Names {
		x, err := experiments.Find(name)
		if err == nil && x.Emulated {
			err = lab.Possible()
		}
		if err != nil {
			return nil, nil, err
		}
		todo = append(todo, x)
	}
	return runExperiments(ctx, todo, r, experiments.Options{Verge: o.Verge, Base: o.Base, Say: o.Say})
}
