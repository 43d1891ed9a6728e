package setpriv

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSetns(t *testing.T) {
	if got := sysSetns(); got != unix.SYS_SETNS {
		t.Errorf("setns(2) is %d here, want %d", got, unix.SYS_SETNS)
	}
}

func TestResult(t *testing.T) {
	executing := []byte{stageExec, 0}
	eacces := []byte{stageFailed, byte(syscall.EACCES)}
	if err := Result(executing); err != nil {
		t.Errorf("executed: %v", err)
	}
	if err := Result(nil); !errors.Is(err, ErrKilled) {
		t.Errorf("killed: %v", err)
	}
	var failed *ExecError
	if err := Result(append(executing, eacces...)); !errors.As(err, &failed) || !errors.Is(err, syscall.EACCES) {
		t.Errorf("not executable: %v", err)
	}
	if err := Result(eacces); errors.As(err, &failed) || !errors.Is(err, syscall.EACCES) {
		t.Errorf("an earlier step: %v", err)
	}
}

// The program has its own environment, and that of Go's runtime has no effect on the step
// before it.
func TestEnvironment(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: becoming another user; needs root")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := Command{
		UID: 1_900_000_003, GID: 1_900_000_003, Path: "/bin/sh", Args: []string{"sh", "-c", "id -u; echo $GODEBUG-$GOMAXPROCS"}, Dir: "/",
		Env: []string{"PATH=/usr/bin:/bin", "GODEBUG=inittrace=1"},
	}
	var out bytes.Buffer
	cmd := exec.Command(Binary)
	cmd.Args, cmd.Env, cmd.Dir = c.Argv(), c.Environ(), "/"
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &out, &out, []*os.File{w}
	err = errors.Join(cmd.Run(), w.Close())
	report, err2 := io.ReadAll(r)
	if err := errors.Join(err, err2, Result(report)); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	if got, want := strings.TrimSpace(out.String()), "1900000003\ninittrace=1-"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
