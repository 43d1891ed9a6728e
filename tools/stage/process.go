package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Process is one that the stage started.
type Process struct {
	// Name says which, as "cluster edge"; Log is the file with what it says.
	Name, Log string

	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how; read after done
}

// start runs the verge binary with args, in a process group of its own so that a
// Ctrl-C at the terminal ends it in order and not by itself.
func (s *Stage) start(name string, args ...string) (*Process, error) {
	p := &Process{
		Name: name, Log: filepath.Join(s.Dir, "log", strings.ReplaceAll(name, " ", "-")+".log"),
		cmd: exec.Command(s.Verge, args...), done: make(chan struct{}),
	}
	out, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of the %s: %w", name, err)
	}
	defer func() { _ = out.Close() }() // the process has its own descriptor
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = s.environ()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the %s: %w", name, err)
	}
	go func() { // ends with the process
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.done }

// Kill ends it as a power cut would, and returns when it is gone.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing the %s: %w", p.Name, err)
	}
	<-p.done
	return nil
}

// Stop asks it to end, and returns when it has.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping the %s: %w", p.Name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the %s does not end: %w", p.Name, ctx.Err())
	}
}

// until polls check until it returns nil, the process ends or ctx is done; the
// error then says what was last missing.
func (p *Process) until(ctx context.Context, check func(ctx context.Context) error) error {
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("the %s ended (%w); its last words:\n%s", p.Name, p.err, p.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("the %s is not ready: %w; its last words:\n%s", p.Name, errors.Join(ctx.Err(), err),
				p.lastWords())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// lastWords are the last lines of the log.
func (p *Process) lastWords() string {
	b, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-8):], "\n  ")
}
