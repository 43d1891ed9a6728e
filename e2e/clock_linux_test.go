package e2e

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/apiv1"
)

// How a process gets another clock. Go programs do not ask the kernel for the time
// but a function that the kernel has put into their memory (__vdso_clock_gettime).
// Here its first bytes are written over, in that one process, with code that asks
// the kernel and adds an offset to what the clock on the wall says: to the process
// it is as if somebody had set the clock. The clock that nobody can set goes on as
// it did, and so do timers. What is not as on a machine with a wrong clock: times
// that the kernel writes itself, those of files, are right; and what the process
// starts has the right clock, if that is not changed too. The machine's own clock
// is never touched, which is why it is done like this: it is not in any namespace.

// clockBack writes the code: rdi is which clock, rsi where to put the time.
func clockBack(offset time.Duration) []byte {
	code := []byte{
		0xb8, unix.SYS_CLOCK_GETTIME, 0, 0, 0, // mov eax, clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi; CLOCK_REALTIME is 0
		0x75, 13, // jne to the end
		0x48, 0xb9, // mov rcx,
	}
	code = binary.LittleEndian.AppendUint64(code, uint64(int64(offset/time.Second)))
	return append(code,
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3, // ret
	)
}

// needOtherClocks skips the test where a process cannot be given another clock.
func needOtherClocks(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("SKIPPED, wrong clocks were not tried: the code for it is there for amd64 only")
	}
	if os.Getuid() != 0 {
		t.Skip("SKIPPED, wrong clocks were not tried: writing to the memory of others needs root")
	}
}

// vdsoTime is where the function is in a process.
func vdsoTime(pid int) (int64, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.Contains(line, "[vdso]") {
			continue
		}
		span, _, _ := strings.Cut(line, " ")
		from, to, _ := strings.Cut(span, "-")
		begin, err1 := strconv.ParseInt(from, 16, 64)
		end, err2 := strconv.ParseInt(to, 16, 64)
		if err := errors.Join(err1, err2); err != nil {
			return 0, err
		}
		mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			return 0, err
		}
		defer func() { _ = mem.Close() }() // read only
		image := make([]byte, end-begin)
		if _, err := io.ReadFull(io.NewSectionReader(mem, begin, end-begin), image); err != nil {
			return 0, err
		}
		f, err := elf.NewFile(bytes.NewReader(image))
		if err != nil {
			return 0, err
		}
		symbols, err := f.DynamicSymbols()
		if err != nil {
			return 0, err
		}
		for _, s := range symbols {
			if s.Name == "__vdso_clock_gettime" {
				return begin + int64(s.Value), nil
			}
		}
	}
	return 0, errors.New("it has no __vdso_clock_gettime")
}

// setClock changes the clock of a process that stands still.
func setClock(pid int, offset time.Duration) error {
	at, err := vdsoTime(pid)
	if err != nil {
		return err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = mem.WriteAt(clockBack(offset), at)
	return errors.Join(err, mem.Close())
}

// setClockOf changes the clock of a process that runs. It is stopped for that
// moment, outside of the code that is written over.
func setClockOf(t *testing.T, pid int, offset time.Duration) {
	t.Helper()
	at, err := vdsoTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	length := int64(len(clockBack(offset)))
	eventually(t, 10*time.Second, "the process stands where its clock can be set", func() error {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
		begin := time.Now()
		for {
			err := standsOutside(pid, at, at+length)
			if err == nil {
				return setClock(pid, offset)
			}
			// A thread that has stopped inside stays there until the process goes on, for
			// as long as eventually waits.
			if !errors.Is(err, errRuns) || time.Since(begin) > time.Second {
				return err
			}
			runtime.Gosched()
		}
	})
}

// errRuns says that a thread has not stopped yet.
var errRuns = errors.New("it still runs")

// standsOutside is nil if all threads of a process stand still, and outside of a range.
func standsOutside(pid int, from, to int64) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil || len(threads) == 0 {
		return fmt.Errorf("it has no threads (%w)", err)
	}
	for _, path := range threads {
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // that one has ended
		}
		if err != nil {
			return err
		}
		// "running", or: number of the system call or -1, its arguments, and as the
		// last where the stack and the next instruction are.
		f := strings.Fields(string(b))
		if len(f) < 3 {
			return errRuns
		}
		pc, err := strconv.ParseInt(strings.TrimPrefix(f[len(f)-1], "0x"), 16, 64)
		if err != nil || pc >= from && pc < to {
			return fmt.Errorf("a thread is at %s (%w)", f[len(f)-1], err)
		}
	}
	return nil
}

// startAt starts a daemon with another clock from its first instruction on.
func (d *daemon) startAt(offset time.Duration) {
	d.w.t.Helper()
	d.before = func(cmd *exec.Cmd) (after func() error) {
		// The tracer is a thread, and only it may let go.
		runtime.LockOSThread()
		cmd.SysProcAttr.Ptrace = true
		return func() error {
			defer runtime.UnlockOSThread()
			var status unix.WaitStatus
			_, err := unix.Wait4(cmd.Process.Pid, &status, unix.WALL, nil)
			if err == nil && !status.Stopped() {
				err = fmt.Errorf("it did not stop before it began: %x", status)
			}
			if err == nil {
				err = setClock(cmd.Process.Pid, offset)
			}
			return errors.Join(err, unix.PtraceDetach(cmd.Process.Pid))
		}
	}
	defer func() { d.before = nil }()
	d.start()
}

// aYearBack is how wrong the clocks are.
const aYearBack = -365 * 24 * time.Hour

// lastYear holds that the last line in the log of a daemon is from when it thinks
// that it is.
func lastYear(t *testing.T, d *daemon) {
	t.Helper()
	text := d.text()
	last := text[strings.LastIndex(text, "time=")+1:]
	if want := time.Now().Add(aYearBack).UTC().Format("ime=2006-"); !strings.HasPrefix(last, want) {
		t.Errorf("%s should write times that begin with %q: %s", d.name, want, last)
	}
}

// TestClockSetBack sets the clock of each role back by a year, while it runs and
// before it starts, under traffic: what runs goes on, what is asked for happens,
// and when the clock is right again all is as it should be.
func TestClockSetBack(t *testing.T) {
	needOtherClocks(t)
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 2, "edge")
	x := w.worker["edge-1"]
	w.root.apply(plain("clocks", "0", 2, 100))
	pids := w.pids("clocks")
	mark := 0
	// works changes the other application and looks at everything.
	works := func(t *testing.T) {
		t.Helper()
		mark++
		w.root.apply(plain("changed", strconv.Itoa(mark), 1, 100))
		for id, pid := range w.pids("clocks") {
			wantEqual(t, "pid of "+id, pid, pids[id])
		}
		w.root.holds("clocks", 30*time.Second)
		w.allReady()
		// Who joins, and who asks as a person, is let in.
		if r := verge(t, w.root.contextFile(), "get", "instances"); r.code != 0 || !strings.Contains(r.out, "clocks.main.1") {
			t.Errorf("the root's operator: %d %s%s", r.code, r.out, r.err)
		}
		w.token(w.cluster["edge"], apiv1.TokenRequest{Kind: "worker"})
	}
	roles := []struct {
		name string
		*daemon
		up func()
	}{
		{"root", w.root.daemon, w.root.answers}, {"cluster", w.cluster["edge"].daemon, w.cluster["edge"].answers}, {"agent", x.daemon, func() {}},
	}
	for _, r := range roles {
		w.run(r.name+" while it runs", func(t *testing.T) {
			traffic := sendTraffic(t, "clocks.test", x.gateway)
			setClockOf(t, r.pid(), aYearBack)
			works(t)
			if r.name != "agent" { // which has nothing to say while all is well
				lastYear(t, r.daemon)
			}
			r.kill()
			r.start()
			r.up()
			works(t)
			traffic.noneFailed(t)
		})
		w.run(r.name+" from its start on", func(t *testing.T) {
			traffic := sendTraffic(t, "clocks.test", x.gateway)
			r.kill()
			r.startAt(aYearBack)
			r.up()
			works(t)
			lastYear(t, r.daemon)
			r.kill()
			r.start()
			r.up()
			works(t)
			traffic.noneFailed(t)
		})
	}
	w.run("engine while it runs", func(t *testing.T) {
		traffic := sendTraffic(t, "clocks.test", x.gateway)
		pid := enginePID(t, x)
		setClockOf(t, pid, aYearBack)
		works(t)
		// Its successor, which has the right one, takes over what it left.
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		traffic.stop() // the gateway has ended with it
		works(t)
	})
	w.run("everything", func(t *testing.T) {
		traffic := sendTraffic(t, "clocks.test", x.gateway)
		for _, r := range roles {
			setClockOf(t, r.pid(), aYearBack)
		}
		setClockOf(t, enginePID(t, x), aYearBack)
		works(t)
		for _, r := range roles {
			r.kill()
			r.startAt(aYearBack)
			r.up()
		}
		works(t)
		for _, r := range roles {
			r.kill()
			r.start()
			r.up()
		}
		works(t)
		traffic.noneFailed(t)
	})
	w.run("a worker is lost meanwhile", w.lostWhileClockIsBack)
	eventually(t, 30*time.Second, "all is well in the end", func() error {
		status, err := w.root.client().System.Status(context.Background())
		if err == nil && len(status.Problems) > 0 {
			err = fmt.Errorf("%v", status.Problems)
		}
		return err
	})
}

// lostWhileClockIsBack: what is to be replaced after some seconds is, whatever the
// clocks say that the cluster had when it began to doubt and has when it decides.
func (w *world) lostWhileClockIsBack(t *testing.T) {
	const soon = 4 * time.Second
	edge := w.cluster["edge"]
	w.root.apply(strings.Replace(plain("lost", "0", 1, 100), "replace_after: 60s", "replace_after: "+soon.String(), 1))
	replaced := func(how func()) {
		t.Helper()
		x := w.holder("lost.main.0")
		killAll(t, x.dir)
		eventually(t, 20*time.Second, "the cluster doubts the worker", func() error {
			i, err := edge.client().Instances.Get(context.Background(), "lost.main.0")
			if err == nil && !i.Unreachable {
				err = fmt.Errorf("%+v", i)
			}
			return err
		})
		how()
		eventually(t, 3*time.Minute, "the instance runs elsewhere", func() error {
			i, err := edge.client().Instances.Get(context.Background(), "lost.main.0")
			if err == nil && (i.Worker == x.short || !i.Ready) {
				err = fmt.Errorf("%s on %s, ready %v", i.State, i.Worker, i.Ready)
			}
			return err
		})
		x.wait()
		x.start()
		w.allReady()
		w.root.holds("lost", 30*time.Second)
	}
	replaced(func() { setClockOf(t, edge.pid(), aYearBack) })
	// A cluster that has just started gives its workers a minute.
	replaced(func() {
		edge.kill()
		edge.startAt(2 * aYearBack)
		edge.answers()
	})
	edge.kill()
	edge.start()
	edge.answers()
	w.allReady()
	w.root.holds("lost", 30*time.Second)
}
