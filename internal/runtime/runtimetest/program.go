package runtimetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
)

// programVar holds the program that the test binary is to be, with arguments.
const programVar = "VERGE_RUNTIMETEST_PROGRAM"

// atOnce makes a program that looks for races end when it ends, and not a second
// later.
const atOnce = "GORACE=atexit_sleep_ms=0"

// description is what the program "describe" prints about itself.
type description struct {
	Args    []string
	Env     []string
	Dir     string
	PID     int
	Session int
	Umask   int
	Files   []string // what its descriptors 0, 1, 2, … are
}

// runProgram is main of the test binary as a program; the result is its exit
// code.
func runProgram(args []string, suites []Suite) int {
	if err := program(args, suites); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	return 0
}

func program(args []string, suites []Suite) error {
	name, arg := args[0], ""
	if len(args) > 1 {
		arg = args[1]
	}
	switch name {
	case "exit":
		code, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		os.Exit(code)
	case "block":
		fmt.Println("ready")
		block()
	case "describe":
		return describe()
	case "lines":
		return writeLines(arg)
	case "chatter":
		for i := 0; ; i++ {
			fmt.Println(i)
			time.Sleep(5 * time.Millisecond)
		}
	case "flood":
		page := []byte(strings.Repeat("y\n", 4096))
		for {
			if _, err := os.Stdout.Write(page); err != nil {
				return err
			}
		}
	case "stubborn":
		return stubborn(arg)
	case "eat":
		return eat(arg)
	case "spin":
		return spin(arg)
	case "engine":
		return engine(args[1:], suites)
	case "successor":
		return successor(args[1:], suites)
	default:
		return fmt.Errorf("no such program: %q", args)
	}
	return nil
}

func describe() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	session, _, errno := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	d := description{
		Args: os.Args, Env: os.Environ(), Dir: dir, PID: os.Getpid(), Session: int(session), Umask: mask,
	}
	for fd := range 3 {
		name, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		d.Files = append(d.Files, name)
	}
	// What the Go runtime opens for itself is no file; a leak of ours would be.
	for fd := 3; fd < 64; fd++ {
		if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && filepath.IsAbs(name) &&
			!strings.HasPrefix(name, "/sys/fs/cgroup/") {
			d.Files = append(d.Files, name)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(d)
}

func writeLines(count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	for i := range n {
		// One write a line, as most programs do.
		if _, err := fmt.Println(i); err != nil {
			return err
		}
	}
	return nil
}

// block blocks until a signal ends the process; Go takes an empty select in a
// program without other goroutines for a deadlock.
func block() {
	for {
		time.Sleep(time.Hour)
	}
}

// stubborn ignores TERM and so do its children: as many as asked for, the first
// of them in a session of its own. Each prints its pid.
func stubborn(children string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	n, err := strconv.Atoi(children)
	if err != nil {
		return err
	}
	for i := range n {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		c := exec.Command(self)
		c.Env = []string{programVar + "=stubborn 0", atOnce}
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: i == 0}
		if err := c.Start(); err != nil {
			return err
		}
	}
	fmt.Println(os.Getpid())
	block()
	return nil
}

// eat takes memory in steps until it has as many bytes as asked for.
func eat(bytes string) error {
	n, err := strconv.Atoi(bytes)
	if err != nil {
		return err
	}
	var kept [][]byte
	for taken := 0; taken < n; taken += 1 << 20 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 512 {
			b[i] = 1
		}
		kept = append(kept, b)
	}
	fmt.Println("ate", len(kept), "MiB")
	return nil
}

// spin computes for the given time on the clock.
func spin(d string) error {
	span, err := time.ParseDuration(d)
	if err != nil {
		return err
	}
	for end := time.Now().Add(span); time.Now().Before(end); {
	}
	return nil
}

// engineOrder is what a fake engine is told, in a file.
type engineOrder struct {
	Suite  string
	Base   string
	Spec   runtime.Spec
	Exec   bool     // execute the successor once the task is started
	Beside []string // run beside the task
	Handle string   // file for the handle
	Exit   string   // file for the exit that the successor sees
}

// engine is an engine that starts one task, writes its handle down, and then
// blocks or executes its successor.
func engine(args []string, suites []Suite) error {
	o, d, err := readOrder(args, suites)
	if err != nil {
		return err
	}
	t, err := d.Start(context.Background(), o.Spec)
	if err != nil {
		return err
	}
	if err := writeJSON(o.Handle, t.Handle()); err != nil {
		return err
	}
	if o.Beside != nil {
		if _, err := t.Exec(context.Background(), runtime.Exec{Command: o.Beside}); err != nil {
			return err
		}
	}
	if !o.Exec {
		block()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append([]string{programVar + "=successor " + args[0]}, passed()...))
}

// successor adopts its predecessor's task and writes down how it ended.
func successor(args []string, suites []Suite) error {
	o, d, err := readOrder(args, suites)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(o.Handle)
	if err != nil {
		return err
	}
	var h runtime.Handle
	if err := json.Unmarshal(b, &h); err != nil {
		return err
	}
	t, err := d.Adopt(context.Background(), o.Spec, h)
	if err != nil {
		return err
	}
	e, err := t.Wait(context.Background())
	if err != nil {
		return err
	}
	return errors.Join(t.Cleanup(), writeJSON(o.Exit, e))
}

func readOrder(args []string, suites []Suite) (engineOrder, runtime.Driver, error) {
	var o engineOrder
	b, err := os.ReadFile(args[0])
	if err != nil {
		return o, nil, err
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return o, nil, err
	}
	for _, s := range suites {
		if s.Name == o.Suite {
			d, err := s.New(o.Base)
			return o, d, err
		}
	}
	return o, nil, fmt.Errorf("no suite %q", o.Suite)
}

// writeJSON writes a file that is either whole or not there.
func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".tmp", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
