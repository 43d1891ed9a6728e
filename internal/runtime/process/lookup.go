package process

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix" // access(2), pidfds and waitid are not in package syscall

	contract "github.com/verge-edge/verge/internal/runtime"
)

// defaultPath is searched when an instance's environment has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// resolve finds the program of s: beneath Dir if its name has a slash, else in
// the PATH of Env.
func resolve(s contract.Spec) (string, error) {
	if len(s.Command) == 0 || s.Command[0] == "" {
		return "", errors.New("no command given")
	}
	for _, list := range [][]string{s.Command, s.Env} {
		for _, v := range list {
			if strings.ContainsRune(v, 0) {
				return "", errors.New("the command or its environment contains a NUL byte")
			}
		}
	}
	name := s.Command[0]
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.Dir, path)
		}
		return path, executable(path, name)
	}
	search := searchPath(s.Env)
	var refused error // found, but not to be run
	for dir := range strings.SplitSeq(search, ":") {
		if dir == "" {
			continue
		}
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(s.Dir, dir)
		}
		path := filepath.Join(dir, name)
		err := executable(path, path)
		if err == nil {
			return path, nil
		}
		if _, e := os.Stat(path); e == nil && refused == nil {
			refused = err
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", fmt.Errorf("command not found: %q is in no directory of PATH=%s; write its full path or set PATH in env",
		name, search)
}

func searchPath(env []string) string {
	path := defaultPath
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v // the last one counts, as for the program itself
		}
	}
	return path
}

// executable says in words why path cannot be run; shown is how the user knows
// it.
func executable(path, shown string) error {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && shown != path:
		return fmt.Errorf("command not found: %q (that is %s)", shown, path)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("command not found: %s does not exist", path)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("command %s: no permission to look into its directory", path)
	case err != nil:
		return fmt.Errorf("command %s: %w", path, err)
	case st.IsDir():
		return fmt.Errorf("command %s is a directory", path)
	case !st.Mode().IsRegular():
		return fmt.Errorf("command %s is not a regular file", path)
	case unix.Access(path, unix.X_OK) != nil:
		return fmt.Errorf("command %s is not executable (mode %s): chmod +x it", path, st.Mode())
	}
	return nil
}

// execError is an error of fork or exec, as opposed to one of preparing them.
type execError struct{ err error }

func (e *execError) Error() string { return e.err.Error() }
func (e *execError) Unwrap() error { return e.err }

// commandError says in words what is wrong with a command.
type commandError struct{ err error }

func (e *commandError) Error() string { return e.err.Error() }
func (e *commandError) Unwrap() error { return e.err }

// explain turns an error of spawn into words.
func explain(err error, path string, s contract.Spec) error {
	var ee *execError
	var ce *commandError
	switch {
	case errors.As(err, &ce):
		return ce.err
	case errors.Is(err, contract.ErrGone):
		return err
	case !errors.As(err, &ee):
		return fmt.Errorf("cannot start %s: %w", s.ID, err)
	case errors.Is(err, syscall.ENOSYS):
		return fmt.Errorf("cannot start %s in its control group: this needs Linux 5.7, or a container's "+
			"filter forbids it (clone3)", s.ID)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("cannot execute %s: %s", path, describeFormat(path))
	case errors.Is(err, syscall.ENOENT):
		if e := checkDir(s.Dir); e != nil {
			return e
		}
		return fmt.Errorf("cannot execute %s: %s", path, describeInterpreter(path))
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("cannot execute %s in %s: permission denied (is its file system mounted noexec, "+
			"or the working directory closed to us?)", path, s.Dir)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("cannot execute %s: its arguments and environment are too long for the kernel", path)
	case errors.Is(err, syscall.ETXTBSY):
		return fmt.Errorf("cannot execute %s: it is being written", path)
	}
	return fmt.Errorf("cannot execute %s: %w", path, err)
}

// describeFormat says why the kernel does not know a file's format.
func describeFormat(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return "it is neither a program for this machine nor a script with #! at its beginning"
	}
	defer f.Close() //nolint:errcheck // read only
	arch := strings.ToLower(strings.TrimPrefix(f.Machine.String(), "EM_"))
	return fmt.Sprintf("it is a program for %s, this machine is %s", arch, runtime.GOARCH)
}

// describeInterpreter says what is missing where the file itself is there.
func describeInterpreter(path string) string {
	if f, err := elf.Open(path); err == nil {
		defer f.Close() //nolint:errcheck // read only
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				b, _ := io.ReadAll(io.LimitReader(p.Open(), 4096))
				return fmt.Sprintf("its loader %s does not exist (a program for another C library?)",
					strings.TrimRight(string(b), "\x00"))
			}
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return "it does not exist any more"
	}
	defer f.Close() //nolint:errcheck // read only
	line, _ := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	if interp, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "#!"); ok {
		return fmt.Sprintf("the interpreter %q of its first line does not exist", strings.TrimSpace(interp))
	}
	return "it or what it needs does not exist"
}
