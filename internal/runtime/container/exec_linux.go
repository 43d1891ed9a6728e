package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/cgroup"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
	"github.com/verge-edge/verge/internal/runtime/container/pidfd"
	"github.com/verge-edge/verge/internal/runtime/ending"
	"github.com/verge-edge/verge/internal/wire"
)

// runcRoot is where the shims keep the state of their containers.
const runcRoot = "/run/containerd/runc/" + ctrd.Namespace

// endingWithin is how long after all others of its namespace the first process may
// take to end. The kernel kills them first.
const endingWithin = 100 * time.Millisecond

// maxConfig bounds what is read of a container's configuration.
const maxConfig = 8 << 20

// Exec implements runtime.Task. runc itself runs the command, with the rights of
// the container: that needs neither containerd nor pipes that somebody would have
// to read, and what the caller gives is what runc has.
func (t *task) Exec(ctx context.Context, e runtime.Exec) (wire.Exit, error) {
	if t.end.Over() || t.proc == nil {
		return wire.Exit{}, runtime.ErrGone
	}
	if len(e.Command) == 0 || e.Command[0] == "" {
		return wire.Exit{}, errors.New("no command given")
	}
	ctx, leave, err := t.beside.Enter(ctx)
	if err != nil {
		return wire.Exit{}, err
	}
	defer leave()
	program, err := runc()
	if err != nil {
		return wire.Exit{}, err
	}
	what, err := t.execFile(e)
	if err != nil {
		if t.proc.Ended() {
			return wire.Exit{}, runtime.ErrGone
		}
		return wire.Exit{}, err
	}
	defer what.Close() //nolint:errcheck // in memory
	said, err := memory("said")
	if err != nil {
		return wire.Exit{}, err
	}
	defer said.Close() //nolint:errcheck // in memory
	var own *cgroup.Group
	args := []string{"--root", runcRoot, "--log", "/proc/self/fd/4", "--log-format", "json", "exec", "--process",
		"/proc/self/fd/3"}
	if t.group != nil {
		if _, own, err = t.group.Sub("exec"); err != nil {
			return wire.Exit{}, err
		}
		args = append(args, "--cgroup", own.SubName())
	}
	cmd := exec.Command(program,
		append(args, t.handle.Container)...) //nolint:gosec,noctx // ctx ends what runc started, by its group
	cmd.Stdin, cmd.Stdout, cmd.Stderr = reader(e.Stdin), writer(e.Stdout), writer(e.Stderr)
	cmd.ExtraFiles = []*os.File{what, said}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: e.Terminal}
	if err := cmd.Start(); err != nil {
		return wire.Exit{}, errors.Join(fmt.Errorf("run runc: %w", err), removeGroup(own))
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its state says how it ended
	}()
	untilOver(ctx, cmd.Process.Pid, own, ended)
	gone := ctx.Err()
	if err := removeGroup(own); err != nil {
		return wire.Exit{}, fmt.Errorf("end the command: %w", err)
	}
	if gone != nil {
		_ = cmd.Process.Kill() // it may have ended with what it ran
	}
	<-ended
	switch {
	case errors.Is(context.Cause(ctx), runtime.ErrGone):
		return wire.Exit{}, runtime.ErrGone
	case gone != nil:
		return wire.Exit{}, gone
	}
	if problem := lastError(said); problem != "" {
		if t.proc.Ended() {
			return wire.Exit{}, runtime.ErrGone
		}
		return wire.Exit{}, words(problem, fmt.Sprintf("%q", e.Command[0]))
	}
	if cmd.ProcessState.ExitCode() == 128+int(unix.SIGKILL) && t.proc.EndsWithin(ctx, endingWithin) {
		return wire.Exit{}, runtime.ErrGone
	}
	x := wire.Exit{Code: cmd.ProcessState.ExitCode(), At: time.Now()}
	if n := x.Code - 128; n > 0 && n < 32 {
		x.Signal = ending.SignalName(unix.Signal(n))
	}
	return x, nil
}

// untilOver waits until a command has ended, whatever it has left behind, or ctx is
// done. runc itself waits for all that have its pipes; but of what runs in the group
// of the command only the command is a child of runc.
func untilOver(ctx context.Context, runc int, own *cgroup.Group, ended <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	for pause := time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 50*time.Millisecond) {
		if own != nil {
			pids, err := own.PIDs()
			if err != nil {
				own = nil // then only runc tells
				continue
			}
			main := slices.IndexFunc(pids, func(pid int) bool { return parentOf(pid) == runc })
			if main < 0 && len(pids) > 0 {
				return
			}
			if main >= 0 {
				if p, err := pidfd.Find(pids[main], 0); err == nil {
					_ = p.Wait(ctx) // ctx says why it did not wait
					p.Close()
					continue
				}
			}
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// parentOf a process, 0 if it has ended.
func parentOf(pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(f[1])
	if err != nil {
		return 0
	}
	return parent
}

// reader and writer keep a nil file from becoming an interface that is none.
func reader(f *os.File) io.Reader {
	if f == nil {
		return nil
	}
	return f
}

func writer(f *os.File) io.Writer {
	if f == nil {
		return nil
	}
	return f
}

// memory is a file in memory, so that secrets in it reach no disk.
func memory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// execFile tells runc what to run: as the container's own process, but for command
// and environment.
func (t *task) execFile(e runtime.Exec) (*os.File, error) {
	spec, err := t.config()
	if err != nil {
		return nil, err
	}
	p := spec.Process
	if err := onlyPass(e); err != nil {
		return nil, err
	}
	// What the caller does not say is as it is for the container's own process.
	p.Args, p.Env, p.Terminal, p.ConsoleSize = e.Command, environ(e.Env, p.Env), e.Terminal, consoleSize(e)
	b, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	f, err := memory("process")
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// onlyPass makes the terminal of the caller pass on what is typed: the command has another
// one behind it, which shows it. runc does that only when both are connected, and what is
// typed until then would be shown twice. Lines are ended here, as runc wants it too.
func onlyPass(e runtime.Exec) error {
	if !e.Terminal || e.Stdin == nil {
		return nil
	}
	raw, err := e.Stdin.SyscallConn()
	if err != nil {
		return fmt.Errorf("the terminal of the command: %w", err)
	}
	pass := func(fd uintptr) {
		var with *unix.Termios
		if with, err = unix.IoctlGetTermios(int(fd), unix.TCGETS); err == nil {
			with.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
			with.Iflag &^= unix.ICRNL | unix.INLCR | unix.IGNCR | unix.ISTRIP | unix.IXON
			err = unix.IoctlSetTermios(int(fd), unix.TCSETS, with)
		}
	}
	if cerr := raw.Control(pass); cerr != nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("set the terminal of the command: %w", err)
	}
	return nil
}

// consoleSize is the size of the terminal of a command, nil where it has none. runc
// gives the one inside that of its own only when the command runs already, which may
// have asked for it by then and got 0 by 0.
func consoleSize(e runtime.Exec) *specs.Box {
	if !e.Terminal || e.Stdin == nil {
		return nil
	}
	raw, err := e.Stdin.SyscallConn()
	if err != nil {
		return nil
	}
	var box *specs.Box
	_ = raw.Control(func(fd uintptr) { // without a size it is as before
		if w, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ); err == nil && w.Row > 0 && w.Col > 0 {
			box = &specs.Box{Height: uint(w.Row), Width: uint(w.Col)}
		}
	})
	return box
}

// config is what runc was told of the container.
func (t *task) config() (*specs.Spec, error) {
	var state struct {
		Config struct{ Labels []string }
	}
	if err := readConfig(filepath.Join(runcRoot, t.handle.Container, "state.json"), &state); err != nil {
		return nil, fmt.Errorf("where the container's configuration is: %w", err)
	}
	var spec specs.Spec
	for _, l := range state.Config.Labels {
		if bundle, ok := strings.CutPrefix(l, "bundle="); ok {
			if err := readConfig(filepath.Join(bundle, "config.json"), &spec); err != nil {
				return nil, fmt.Errorf("the container's configuration: %w", err)
			}
		}
	}
	if spec.Process == nil {
		return nil, errors.New("the container's configuration is not where runc says")
	}
	return &spec, nil
}

func readConfig(path string, v any) error {
	f, err := os.Open(path) //nolint:gosec // of containerd and runc
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(f, maxConfig))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// lastError is what runc has logged as an error.
func lastError(log *os.File) string {
	b, err := io.ReadAll(io.NewSectionReader(log, 0, 1<<20))
	if err != nil {
		return err.Error()
	}
	last := ""
	for line := range bytes.Lines(b) {
		var l struct{ Level, Msg string }
		if json.Unmarshal(line, &l) == nil && (l.Level == "error" || l.Level == "fatal") {
			last = l.Msg
		}
	}
	return last
}

// removeGroup kills what is left in a group and removes it.
func removeGroup(g *cgroup.Group) error {
	if g == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leftoverTimeout)
	defer cancel()
	return g.Remove(ctx)
}

// sweepExecs ends commands that ran beside the task when an engine died.
func (t *task) sweepExecs(ctx context.Context) {
	if t.group == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leftoverTimeout)
	defer cancel()
	if err := t.group.RemoveSubs(ctx); err != nil {
		t.d.log.Warn("commands that ran beside an instance are left", "instance", t.id, "error", err)
	}
}
