package setpriv

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// name is argv[0] of the process that becomes another user.
const name = "verge-setpriv"

// Descriptors of the process, behind those of the program.
const (
	reportFD = 3
	othersFD = 4
)

// Command of a program that is to be executed as another user.
type Command struct {
	UID, GID uint32
	// LowPorts keeps the capability to listen at ports below 1024.
	LowPorts bool
	Path     string
	Args     []string // with the program's name first
	Dir      string   // working directory, which the user must be able to enter
	Env      []string
	// Mounts: descriptor 4 is the mount namespace to enter, and of a spare the first after that
	// of the network.
	Mounts bool
	// Groups is how many descriptors follow, of control groups to enter; see cgroup.Entries.
	// What this step uses, more than some limits allow, counts for none of them.
	Groups int
}

// Binary is what to execute as root: this program, whatever its file is called by now.
const Binary = "/proc/self/exe"

// Argv and Environ are what to execute Binary with. Its descriptor 3 is the write end of a pipe
// for Report.
func (c *Command) Argv() []string {
	return append([]string{
		name, strconv.FormatUint(uint64(c.UID), 10), strconv.FormatUint(uint64(c.GID), 10),
		strconv.FormatBool(c.LowPorts), strconv.FormatBool(c.Mounts), strconv.Itoa(c.Groups), c.Path, c.Dir,
	}, c.Args...)
}

// Environ is the environment of Binary. It hides the variables of the program from Go's runtime, which has some of its own.
func (c *Command) Environ() []string {
	out := make([]string, 0, len(c.Env)+1)
	out = append(out, "GOMAXPROCS=1")
	for _, kv := range c.Env {
		out = append(out, hidden+kv)
	}
	return out
}

const hidden = "_"

// Stages of the process, as the first byte of what it reports.
const (
	stageFailed = iota // an errno follows
	stageExec          // all that is left is to execute the program
)

// reportSize is the size of one report: a stage and an errno, which fits into a byte.
const reportSize = 2

// ErrKilled says that the process ended before it executed the program.
var ErrKilled = errors.New("it was killed before it ran")

// ExecError says that the program could not be executed, as opposed to a step before that.
type ExecError struct{ Errno syscall.Errno }

// Error implements error.
func (e *ExecError) Error() string { return e.Errno.Error() }

// Unwrap returns the errno.
func (e *ExecError) Unwrap() error { return e.Errno }

// Result is what all that came through the pipe says, once that is closed: nil is that the
// program runs.
func Result(report []byte) error {
	executing := false
	for ; len(report) >= reportSize; report = report[reportSize:] {
		errno := syscall.Errno(report[1])
		switch {
		case report[0] == stageExec:
			executing = true
		case executing:
			return &ExecError{errno}
		default:
			return errno
		}
	}
	if !executing {
		return ErrKilled
	}
	return nil
}

func say(stage byte, errno syscall.Errno) {
	_, _ = syscall.Write(reportFD, []byte{stage, byte(errno)}) // nobody is left to be told
}

func init() {
	switch {
	case len(os.Args) == 0 || os.Args[0] != name:
	case len(os.Args) == 2 && os.Args[1] == spareArg:
		wait()
	default:
		become(os.Args[1:], os.Environ(), passed{others: othersFD, network: -1})
	}
}

// passed are descriptors beside those of the program and the report.
type passed struct {
	others  int // the first of a row: the mount namespace, if there is one, and control groups
	network int // -1: none
}

// become does not return. It runs on the main thread, since it is part of an init function.
func become(args, env []string, fds passed) {
	syscall.CloseOnExec(reportFD)
	err := execute(args, env, fds)
	errno := syscall.EINVAL
	_ = errors.As(err, &errno)
	say(stageFailed, errno)
	os.Exit(1)
}

// execute returns only errors.
func execute(args, env []string, fds passed) error {
	if len(args) < 8 {
		return syscall.EINVAL
	}
	uid, err1 := strconv.ParseUint(args[0], 10, 32)
	gid, err2 := strconv.ParseUint(args[1], 10, 32)
	low, err3 := strconv.ParseBool(args[2])
	mounts, err4 := strconv.ParseBool(args[3])
	groups, err5 := strconv.Atoi(args[4])
	if errors.Join(err1, err2, err3, err4, err5) != nil {
		return syscall.EINVAL
	}
	path, dir, argv := args[5], args[6], args[7:]
	if fds.network >= 0 {
		if err := enter(fds.network, syscall.CLONE_NEWNET); err != nil {
			return err
		}
	}
	next := fds.others
	if mounts {
		if err := enterMounts(next); err != nil {
			return err
		}
		next++
	}
	if err := dropRights(low); err != nil {
		return err
	}
	for fd := next; fd < next+groups; fd++ {
		if _, err := syscall.Write(fd, []byte("0")); err != nil {
			return err
		}
		if err := syscall.Close(fd); err != nil {
			return err
		}
	}
	if err := setUser(uintptr(uid), uintptr(gid)); err != nil {
		return err
	}
	if low {
		if err := keepLowPorts(); err != nil {
			return err
		}
	}
	if err := syscall.Chdir(dir); err != nil {
		return err
	}
	own := make([]string, 0, len(env))
	for _, kv := range env {
		if len(kv) > 0 && kv[:1] == hidden {
			own = append(own, kv[1:])
		}
	}
	say(stageExec, 0)
	return syscall.Exec(path, argv, own)
}

// Not in package syscall.
const (
	prSetNoNewPrivs   = 38
	prCapAmbient      = 47
	prCapAmbientRaise = 2
	capVersion3       = 0x20080522
	capNetBindService = 10
)

// sysSetns is the number of setns(2), which package syscall has not for all machines.
// Package unix has it, and runs late among the init functions.
func sysSetns() uintptr {
	switch runtime.GOARCH {
	case "amd64":
		return 308
	case "386":
		return 346
	case "arm":
		return 375
	case "arm64", "riscv64", "loong64":
		return 268
	}
	return ^uintptr(0) // the kernel says that it has no such call
}

func enterMounts(fd int) error {
	// The threads of a process share a root and a working directory until they say otherwise,
	// and such a thread may not change its mount namespace.
	if err := call(syscall.SYS_UNSHARE, syscall.CLONE_FS, 0, 0); err != nil {
		return err
	}
	return enter(fd, syscall.CLONE_NEWNS)
}

// enter lets this thread, which is the one that executes the program, enter a namespace.
func enter(fd int, kind uintptr) error {
	if err := call(sysSetns(), uintptr(fd), kind, 0); err != nil { //nolint:gosec // a descriptor
		return err
	}
	return syscall.Close(fd)
}

// dropRights takes all rights from the process that it might have after its exec.
func dropRights(low bool) error {
	for c := uintptr(0); ; c++ {
		if low && c == capNetBindService {
			continue
		}
		err := call(syscall.SYS_PRCTL, syscall.PR_CAPBSET_DROP, c, 0)
		if errors.Is(err, syscall.EINVAL) { // the kernel knows no more
			break
		}
		if err != nil {
			return err
		}
	}
	if low {
		if err := call(syscall.SYS_PRCTL, syscall.PR_SET_KEEPCAPS, 1, 0); err != nil {
			return err
		}
	}
	return call(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0)
}

// setUser changes the user of this thread, which is the one that executes the program: of
// the others nothing is left then.
func setUser(uid, gid uintptr) error {
	if err := call(sysSetgroups, 0, 0, 0); err != nil {
		return err
	}
	if err := call(sysSetresgid, gid, gid, gid); err != nil {
		return err
	}
	return call(sysSetresuid, uid, uid, uid)
}

// keepLowPorts lets the program have the one capability.
func keepLowPorts() error {
	header := struct {
		version uint32
		pid     int32
	}{version: capVersion3}
	const bit = 1 << capNetBindService
	data := [2]struct{ effective, permitted, inheritable uint32 }{{bit, bit, bit}}
	if err := call(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0); err != nil {
		return err
	}
	return call(syscall.SYS_PRCTL, prCapAmbient, prCapAmbientRaise, capNetBindService)
}

// call makes a system call of this thread alone: those of package syscall that change rights
// are made by all threads. prctl wants the arguments that it does not use to be 0.
func call(number, a, b, c uintptr) error {
	if _, _, errno := syscall.RawSyscall6(number, a, b, c, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
