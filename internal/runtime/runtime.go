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

// ErrGone: the task has ended.
var ErrGone = errors.New("task is gone")

// ErrAway is wrapped if something that a driver depends on does not answer now: try again later.
var ErrAway = errors.New("it does not answer")

// ErrNoRoom is wrapped if the disk has no room for an image.
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
	// NetNS is the path of its network namespace; "" is the machine's.
	NetNS string
	// Resolv is a file of the machine that replaces /etc/resolv.conf; "" is the machine's own.
	Resolv string
	// User of a process, confined to View; nil is the user of this process with all its rights,
	// unconfined. Other drivers ignore it.
	User *User
	// View is what a process with a User sees of the machine.
	View View
	// Container describes a container; nil for other drivers. Its Command may be empty, and Dir is
	// a directory in it; "" is the image's.
	Container *Container
	// Wasm describes a function; nil for other drivers. Command has its arguments, its name first.
	Wasm *Wasm
}

// User of a process. It has no capabilities, cannot gain any (no_new_privs), and is in no other
// group.
type User struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	// LowPorts: it may listen at ports below 1024 of the machine's network; in its own network
	// namespace every process may.
	LowPorts bool `json:"low_ports,omitempty"`
}

// May says whether the user has all bits (4 read, 2 write, 1 execute) on a file with this owner,
// group and mode. It ignores access lists.
func (u *User) May(bits, mode, owner, group uint32) bool {
	switch {
	case owner == u.UID:
		mode >>= 6
	case group == u.GID:
		mode >>= 3
	}
	return mode&bits == bits
}

// View of the machine's file system in the mount namespace of a process. Paths are absolute.
type View struct {
	// Hide are directories and sockets that the process does not see. Missing ones are skipped.
	Hide []string
	// Show are files and directories that it sees, even below a directory of Hide or one that the
	// user may not enter. Missing ones are skipped.
	Show []string
	// Programs are directories of programs to show as well if the user could not reach them.
	Programs []string
	// Tmp replaces /tmp and /var/tmp; "" leaves them.
	Tmp string
	// Devices are device nodes that the user may open.
	Devices []string
}

// Wasm describes a function.
type Wasm struct {
	// Module is the absolute path of a file of the worker, or an object: NAMESPACE/NAME.
	Module string
	// Listen is the address for its requests.
	Listen string
	// Concurrency is how many requests run at a time; 0 is wire.DefaultConcurrency.
	Concurrency int
	// Files in Spec.Dir that it may read, by their paths below it.
	Files []string
	// Timeout of a request; 0 leaves it to the driver.
	Timeout time.Duration
	// Soon: a request waits for it, so its module is loaded at once.
	Soon bool
}

// Container describes a container.
type Container struct {
	// Image is a reference as in `docker pull`, or the name of an imported archive.
	Image string
	// Pull is PullAlways, PullMissing or PullNever; "" is PullMissing.
	Pull string
	// Login has the credentials for a registry, or a mirror of it, at a host; nil: none.
	Login func(host string) (user, secret string) `json:"-"`
	// User by name or number, with or without ":group"; "" is the image's.
	User string
	// Args follow the entry point of the image if Spec.Command is empty; nil: the image's.
	Args   []string
	Mounts []Mount
	// Security of the container.
	Security Security
	// Devices are device nodes of the machine that it may open, at the same paths, besides
	// /dev/null and the like.
	Devices []string
}

// Security is what a container may do; the zero value is the strictest.
type Security struct {
	// WritableRoot: it may write to the files of its image. Otherwise they are read-only, and /tmp
	// is in memory.
	WritableRoot bool
	// Capabilities while its user is root, without CAP_. Another user has those that are Extra.
	Capabilities, Extra []string
	// NewPrivileges: its programs may gain privileges.
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

// Mount is a file or directory of the machine, or a tmpfs, in a container.
type Mount struct {
	// Source on the machine; "" is a tmpfs of Tmpfs bytes.
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
	// Fetch fetches the image of s; that may take minutes. progress is called now and then with a
	// text. The error wraps ErrAway if the registry or the image store does not answer.
	Fetch(ctx context.Context, s Spec, progress func(string)) error
}

// Copier is an Imager that copies images from other workers rather than from a registry.
type Copier interface {
	// Neighbours sets how to find workers that may have an image; an error of find means none. It
	// is called once, before anything is started.
	Neighbours(find func(ctx context.Context, image string) ([]Neighbour, error))
	// Blob opens a part of an image that is here; otherwise the error is ErrGone.
	Blob(ctx context.Context, digest string) (blob io.ReadSeekCloser, err error)
	// Fetching says whether an image is being fetched, and how many bytes of it are here.
	Fetching(image string) (done int64, ok bool)
	// Copied counts the bytes of images from registries and from neighbours.
	Copied() (registries, neighbours int64)
}

// Neighbour is another worker that may have an image.
type Neighbour interface {
	Name() string
	// Pending: it is fetching the image, and may soon have it.
	Pending() bool
	// Blob opens a part of an image at an offset. The error *Fetching says that it will have it
	// soon, any other that it has not.
	Blob(ctx context.Context, image, digest string, offset int64) (io.ReadCloser, error)
}

// Fetching is the error of a worker that is fetching an image itself and has Done bytes.
type Fetching struct{ Done int64 }

// Error implements error.
func (f *Fetching) Error() string {
	return fmt.Sprintf("it fetches it itself, %d bytes so far", f.Done)
}

// Stocked is an Imager that can say at once whether Fetch has nothing to do.
type Stocked interface {
	// Stocked is true if the image of s is here. It never waits; false means unknown.
	Stocked(s Spec) bool
}

// Orphans is a driver whose tasks are not only processes, and are recorded by instance.
type Orphans interface {
	// EndOrphans ends and removes tasks of an instance that an earlier engine of this directory has
	// started and nobody has adopted.
	EndOrphans(ctx context.Context, id wire.InstanceID) error
}

// Expecter is a driver that can make a start quicker of which it is told.
type Expecter interface {
	// Expect says that an instance will be started once somebody waits for it, or not any more.
	Expect(id wire.InstanceID, expected bool)
}

// Resident is a driver whose tasks are part of the engine's process and end with it, which is no
// failure: the next engine starts them again. They have no temporary directory, a working directory
// only if there are files for it, and the driver makes their LogDir when there is something to log.
type Resident interface {
	Driver
	Resident()
}

// Modular is a driver that starts programs from the object store.
type Modular interface {
	// Objects sets how to open an object NAMESPACE/NAME: it stays at the path until it is released.
	// A problem with status 503 says that it may be found later. It is called once, before anything
	// is started.
	Objects(open func(ctx context.Context, name string) (path string, release func(), err error))
}

// Reporter is a driver that reports problems by itself.
type Reporter interface {
	// Report sets two callbacks: problem gets what is wrong with the whole driver, nil once it
	// works; changed says that Probe may have another result. It is called once, before anything
	// else. No callback follows Close.
	Report(problem func(error), changed func())
}

// Handle is what a driver needs to find a task again. It is stored, and must be harmless after a
// reboot, which a pid alone would not be: see Started.
type Handle struct {
	PID int `json:"pid"`
	// Started is the kernel's start time of the process in clock ticks since boot, and Boot the
	// boot id. With PID they identify one process for ever.
	Started uint64 `json:"started"`
	Boot    string `json:"boot"`
	Cgroup  string `json:"cgroup,omitempty"`
	// Container is its name in containerd; "" is no container.
	Container string `json:"container,omitempty"`
	// User of the process, in its own mount namespace; nil is the user of its engine.
	User *User `json:"user,omitempty"`
	// Shim is the name of its shim, if it shares one.
	Shim string `json:"shim,omitempty"`
}

// Driver starts tasks. Methods may be called concurrently.
type Driver interface {
	// Name as in the descriptor's `runtime`.
	Name() string
	// Probe says whether the driver works on this machine, and what it cannot do ("" if nothing),
	// such as "no control groups: limits are not enforced".
	Probe() (missing string, err error)
	// Start starts a task. On an error, which is for the user, nothing is left behind.
	Start(ctx context.Context, s Spec) (Task, error)
	// Adopt finds a task started by an earlier process, or ErrGone.
	Adopt(ctx context.Context, s Spec, h Handle) (Task, error)
}

// Task is one started process tree, container, …
type Task interface {
	Handle() Handle
	// Wait blocks until the task has ended or ctx is done. Any goroutine may call it, at any time,
	// and gets the same answer.
	Wait(ctx context.Context) (wire.Exit, error)
	// Signal sends a signal by its name without SIG ("TERM") to the main process.
	Signal(name string) error
	// Kill ends the whole tree at once and returns when no process of it is left.
	Kill(ctx context.Context) error
	// Cleanup removes the control groups and the like of a task that has ended, and kills what is
	// left of its tree. Logs stay.
	Cleanup() error
	// Exec runs a command beside the task: in its working directory, under its limits and counted
	// as its use. It returns when the command and its children have ended; children that outlive
	// the command or ctx are killed. After Kill or Cleanup of the task, which end them too, it is
	// ErrGone. Any error but ctx's says why nothing was run.
	Exec(ctx context.Context, e Exec) (wire.Exit, error)
	// Usage now; unknown values are zero.
	Usage() Usage
}

// Exchanger is a Task that does not notice when a file that is the Source of one of its Mounts is
// replaced.
type Exchanger interface {
	// Exchange shows it the file that is at source now. Programs in the task open the old or the
	// new file, whole; after an error they still have the old one. ErrGone: it has ended.
	Exchange(ctx context.Context, source string) error
}

// Exec is a command to run beside a task.
type Exec struct {
	Command []string // program first; looked up in Env's PATH
	Env     []string // complete environment, KEY=value
	// Stdin, Stdout and Stderr of the command; nil is /dev/null. The caller closes them.
	Stdin, Stdout, Stderr *os.File
	// Terminal: Stdin is a terminal, which becomes the command's.
	Terminal bool
}

// Usage of a task.
type Usage struct {
	CPU    time.Duration // used since the start
	Memory int64         // bytes resident
	Tasks  int           // processes and threads
}
