package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// ErrGone: there is no such task any more (Adopt after its end).
var ErrGone = errors.New("task is gone")

// ErrAway is wrapped where a driver depends on something that does not answer now
// and may later: nobody's failure, to be tried again.
var ErrAway = errors.New("it does not answer")

// ErrNoRoom is wrapped where an image does not fit its disk: less may be kept there.
var ErrNoRoom = errors.New("no room")

// Spec of one start. Everything is expanded and resolved by the engine.
type Spec struct {
	ID      wire.InstanceID
	Attempt int
	Command []string // program first; looked up in Env's PATH
	Env     []string // complete environment, KEY=value
	Dir     string   // working directory, exists
	// LogDir exists; the driver writes and rotates the task's output there.
	LogDir string
	// CPUWeight is the reservation in millicores; CPULimit 0 means may burst.
	CPUWeight int64
	CPULimit  int64
	// MemoryLimit in bytes, 0 is none.
	MemoryLimit int64
	// NetNS is the path of the network namespace to run in, "" is the machine's.
	NetNS string
	// Resolv is a file of the machine that takes the place of /etc/resolv.conf; "" is
	// the machine's own.
	Resolv string
	// User that a process runs as, confined to View; nil is the user of this process,
	// with all of its rights and all that it sees. Other drivers ignore it.
	User *User
	// View is what a process with a User sees of the machine.
	View View
	// Container says what a container is made of; nil for other drivers. Of a
	// container Command may be empty, and Dir is a directory in it, "" is that of its
	// image.
	Container *Container
	// Wasm says what a function is made of; nil for other drivers. Of a function
	// Command are its arguments, with its name first.
	Wasm *Wasm
}

// User is who a process runs as. It has no capabilities and cannot gain any
// (no_new_privs), and it is in no other group.
type User struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	// LowPorts: it may listen at ports below 1024 of the machine's network. In a
	// network namespace of its own every process may.
	LowPorts bool `json:"low_ports,omitempty"`
}

// May says whether the user has all of the bits (4 read, 2 write, 1 execute) of what belongs
// to an owner and a group with a mode. It knows nothing of access lists.
func (u *User) May(bits, mode, owner, group uint32) bool {
	switch {
	case owner == u.UID:
		mode >>= 6
	case group == u.GID:
		mode >>= 3
	}
	return mode&bits == bits
}

// View is what a process sees of the machine's file system, in a mount namespace of
// its own. All paths are absolute.
type View struct {
	// Hide are directories and sockets that do not exist for the process. One that is
	// missing on the machine is skipped.
	Hide []string
	// Show are files and directories that stay where they are, even below a directory
	// of Hide or one that the user may not enter. One that is missing is skipped.
	Show []string
	// Programs are directories of programs that are shown as well, where the user would
	// not reach them else.
	Programs []string
	// Tmp takes the place of /tmp and /var/tmp; "" leaves them.
	Tmp string
	// Devices are device nodes that the user may open.
	Devices []string
}

// Wasm is what a function is made of.
type Wasm struct {
	// Module is the absolute path of a file of the worker, or NAMESPACE/NAME of an
	// object.
	Module string
	// Listen is the address where its requests come in.
	Listen string
	// Concurrency is how many requests are answered at a time; 0 is
	// wire.DefaultConcurrency.
	Concurrency int
	// Files in Spec.Dir that it may read, by their paths below it.
	Files []string
	// Timeout of a request; 0 leaves it to the driver.
	Timeout time.Duration
	// Soon: a request waits for it, so its module is loaded at once.
	Soon bool
}

// Container is what a container is made of.
type Container struct {
	// Image is a reference, as `docker pull` takes it, or the name under which an
	// archive was imported.
	Image string
	// Pull is PullAlways, PullMissing or PullNever; "" is PullMissing.
	Pull string
	// Login is what a registry, or a mirror of it, at a host is told of who pulls; nil:
	// nothing.
	Login func(host string) (user, secret string) `json:"-"`
	// User as name or number, with ":group" or without; "" is that of the image.
	User string
	// Args follow the entry point of the image where Spec.Command is empty; without
	// any, those of the image do.
	Args   []string
	Mounts []Mount
	// Security is what it may do.
	Security Security
	// Devices are device nodes of the machine that it may open, and finds under the
	// same paths; it may open no others but /dev/null and its like.
	Devices []string
}

// Security is what a container may do; the zero value is as little as any may.
type Security struct {
	// WritableRoot: it may write to the files of its image; else they are read only,
	// and it has a /tmp in memory.
	WritableRoot bool
	// Capabilities that it has while its user is root, without CAP_. Another user has
	// those of them that are Extra.
	Capabilities, Extra []string
	// NewPrivileges: its programs may get more than those who execute them have.
	NewPrivileges bool
	// NoSeccomp: it may make any system call.
	NoSeccomp bool
}

// When an image is pulled.
const (
	PullAlways  = "always"
	PullMissing = "missing"
	PullNever   = "never"
)

// Mount is a file or directory of the machine, or one in memory, in a container.
type Mount struct {
	// Source on the machine; "" is a directory in memory of Tmpfs bytes.
	Source string
	Tmpfs  int64
	// Target in the container: absolute, or below its working directory.
	Target   string
	ReadOnly bool
	// Own gives the source to the container's user.
	Own bool
}

// Imager is a driver that needs an image before it can start anything.
type Imager interface {
	// Fetch makes the image of s ready to be started and returns when it is; it may
	// take minutes. progress is called with how far it is, in words, now and then.
	// It wraps ErrAway where the registry, or who keeps images, does not answer.
	Fetch(ctx context.Context, s Spec, progress func(string)) error
}

// Copier is an Imager that copies what other workers have of an image, instead of
// fetching it from a registry.
type Copier interface {
	// Neighbours sets who may have an image; find is asked when something of it has to be
	// fetched, and an error means nobody. It is called once, before anything is started.
	Neighbours(find func(ctx context.Context, image string) ([]Neighbour, error))
	// Blob is a part of an image that is kept here, to be closed. ErrGone: it is not.
	Blob(ctx context.Context, digest string) (blob io.ReadSeekCloser, err error)
	// Fetching says whether an image is being fetched now, and how many bytes of it are
	// here.
	Fetching(image string) (done int64, ok bool)
	// Copied are the bytes of images that came from registries and from neighbours.
	Copied() (registries, neighbours int64)
}

// Neighbour is another worker that may have an image.
type Neighbour interface {
	Name() string
	// Pending: it is about to fetch the image, so that it may soon have it.
	Pending() bool
	// Blob is a part of an image from an offset on, to be closed. *Fetching says that
	// it is about to have it, any other error that it has not.
	Blob(ctx context.Context, image, digest string, offset int64) (io.ReadCloser, error)
}

// Fetching is the error of who fetches an image itself, and has Done bytes of it.
type Fetching struct{ Done int64 }

// Error implements error.
func (f *Fetching) Error() string {
	return fmt.Sprintf("it fetches it itself, %d bytes so far", f.Done)
}

// Stocked is an Imager that can say at once whether Fetch has nothing to do.
type Stocked interface {
	// Stocked is true where what s is made of is here. It waits for nobody; false says
	// nothing.
	Stocked(s Spec) bool
}

// Orphans is a driver that keeps what it has started somewhere else than in
// processes, by instance.
type Orphans interface {
	// EndOrphans ends and removes what an earlier engine of this directory has started
	// for an instance, and nobody has adopted.
	EndOrphans(ctx context.Context, id wire.InstanceID) error
}

// Resident is a driver whose tasks are part of the process that has started them, and
// end with it. That is no failure of theirs: the next engine starts them again. They
// have no temporary directory, a working directory only where there are files for it,
// and the driver makes their LogDir when there is something to log.
type Resident interface {
	Driver
	Resident()
}

// Modular is a driver that starts what is in the object store.
type Modular interface {
	// Objects sets how an object is found by its name, as NAMESPACE/NAME: a path at
	// which it stays until it is released. An error that is a problem with status 503
	// says that it may be found later. It is called once, before anything is started.
	Objects(open func(ctx context.Context, name string) (path string, release func(), err error))
}

// Reporter is a driver that has something to say while nobody asks it.
type Reporter interface {
	// Report sets who is told what is wrong with the driver as a whole, nil when
	// nothing is (any more), and who is told when another Probe may have another
	// result. It is called once, before anything else; neither is called after Close.
	Report(problem func(error), changed func())
}

// Handle is what a driver needs to find a task again. It is stored before Start
// returns to its caller's caller and must survive a reboot harmlessly (a pid
// alone would not: see Started).
type Handle struct {
	PID int `json:"pid"`
	// Started is the kernel's start time of the process (clock ticks since boot)
	// and Boot the boot id, which together with PID name one process for ever.
	Started uint64 `json:"started"`
	Boot    string `json:"boot"`
	Cgroup  string `json:"cgroup,omitempty"`
	// Container is the name that it has where containers are kept; "" is no
	// container.
	Container string `json:"container,omitempty"`
	// User that the process runs as, in a mount namespace of its own; nil is the user
	// of the engine that started it.
	User *User `json:"user,omitempty"`
	// Shim is the name of what stands between it and who keeps it, where it shares that
	// with others.
	Shim string `json:"shim,omitempty"`
}

// Driver starts tasks. Methods may be called concurrently.
type Driver interface {
	// Name as in the descriptor's `runtime`.
	Name() string
	// Probe says whether the driver works on this machine, and what it cannot do
	// ("" if nothing): e.g. "no control groups: limits are not enforced".
	Probe() (missing string, err error)
	// Start starts a task. An error means that nothing was started and nothing is
	// left behind; it says what is wrong in words for the user.
	Start(ctx context.Context, s Spec) (Task, error)
	// Adopt finds a task started by an earlier process, or ErrGone.
	Adopt(ctx context.Context, s Spec, h Handle) (Task, error)
}

// Task is one started process tree, container, …
type Task interface {
	Handle() Handle
	// Wait blocks until the task has ended or ctx is done, may be called by
	// several goroutines and again later: always the same answer.
	Wait(ctx context.Context) (wire.Exit, error)
	// Signal sends a signal by its name without SIG ("TERM") to the main process.
	Signal(name string) error
	// Kill ends the whole tree at once and returns when no process of it is left.
	Kill(ctx context.Context) error
	// Cleanup removes what the driver made for the task (control groups), after
	// its end, killing what is left of its tree. Logs stay.
	Cleanup() error
	// Exec runs a command beside the task: in its working directory, under its
	// limits and counted as its use. It returns when the command and all that it
	// started have ended; what is left of them when the command itself ends, or
	// when ctx is done, is killed. After Kill or Cleanup of the task, which end
	// them too, it is ErrGone. Any other error than ctx's says in words why nothing
	// was run.
	Exec(ctx context.Context, e Exec) (wire.Exit, error)
	// Usage now; zero values where it is not known.
	Usage() Usage
}

// Exchanger is a Task that would not see that a Source of its Mounts, which is a
// file, was replaced by another one.
type Exchanger interface {
	// Exchange lets it see the file that is at source now. Whoever opens it in the task
	// finds the one before, or this one, whole. An error says that it has the one before.
	// ErrGone: it has ended.
	Exchange(ctx context.Context, source string) error
}

// Exec is a command to run beside a task.
type Exec struct {
	Command []string // program first; looked up in Env's PATH
	Env     []string // complete environment, KEY=value
	// Stdin, Stdout and Stderr of the command, which stay the caller's to close;
	// nil is /dev/null.
	Stdin, Stdout, Stderr *os.File
	// Terminal: Stdin is a terminal, which is to be that of the command.
	Terminal bool
}

// Usage of a task.
type Usage struct {
	CPU    time.Duration // used since the start
	Memory int64         // bytes resident
	Tasks  int           // processes and threads
}
