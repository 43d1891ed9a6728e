package stage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
)

// marker is a file that tells a stage from any other folder.
const marker = "verge-stage"

// Ports are looked for below those that the kernel and the engines give out, so
// that nobody takes one between two lives of its owner.
const firstPort, lastPort = 12000, 19999

// Stage is a folder in which tiers run. Its methods may be called concurrently.
type Stage struct {
	// Dir is absolute.
	Dir string
	// Verge is the binary, Path the PATH of everything that is started.
	Verge, Path string

	ports chan int
}

// New makes a stage in a fresh temporary folder; verge is the binary to run. The
// binary's folder leads the PATH, so that workers find what lies beside it.
func New(verge string) (*Stage, error) {
	bin, err := filepath.Abs(verge)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(bin); err != nil {
		return nil, fmt.Errorf("the verge binary: %w (make build makes it)", err)
	}
	dir, err := os.MkdirTemp("", "verge-stage-")
	if err != nil {
		return nil, fmt.Errorf("making a temporary folder: %w", err)
	}
	// As those name it who look it up: processes are found by it.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	s := &Stage{Dir: dir, Verge: bin, Path: filepath.Dir(bin) + string(os.PathListSeparator) + os.Getenv("PATH")}
	err = errors.Join(os.WriteFile(filepath.Join(dir, marker), nil, 0o600), os.Mkdir(filepath.Join(dir, "log"), 0o700))
	if err == nil {
		s.ports, err = freePorts(32)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing %s: %w", dir, err), os.RemoveAll(dir))
	}
	return s, nil
}

// freePorts finds n ports of the loopback that nobody listens on.
func freePorts(n int) (chan int, error) {
	out := make(chan int, n)
	for _, i := range rand.Perm(lastPort - firstPort + 1) {
		port := firstPort + i
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		if out <- port; len(out) == n {
			return out, nil
		}
	}
	return nil, fmt.Errorf("fewer than %d free ports between %d and %d", n, firstPort, lastPort)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// addr is an address of the loopback that was not given out before.
func (s *Stage) addr() (string, error) {
	select {
	case port := <-s.ports:
		return loopback(port), nil
	default:
		return "", errors.New("the stage has no more ports: it holds a root, and a few clusters and workers")
	}
}

// environ is that of this process, without settings of Verge.
func (s *Stage) environ() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "VERGE_") && !strings.HasPrefix(v, "PATH=") {
			env = append(env, v)
		}
	}
	return append(env, "PATH="+s.Path)
}

// Command is the command line client, talking to the server of a context file.
func (s *Stage) Command(ctx context.Context, contextFile string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Verge, args...)
	cmd.Env = append(s.environ(), "VERGE_CONTEXT="+contextFile)
	return cmd
}

// token makes a join token with the command line and leaves it in a file that
// only this user can read.
func (s *Stage) token(ctx context.Context, contextFile, name string, args ...string) (file string, err error) {
	file = filepath.Join(s.Dir, name+".token")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("file of the token for %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var why strings.Builder
	cmd := s.Command(ctx, contextFile, append([]string{"token", "create"}, args...)...)
	cmd.Stdout, cmd.Stderr = f, &why
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("making a token for %s: %w\n%s", name, err, why.String())
	}
	return file, nil
}

// connect makes a client of the context file that a root or cluster writes at its first start.
func connect(contextFile string) (*client.Client, error) {
	if _, err := os.Stat(contextFile); err != nil {
		return nil, err
	}
	e, err := client.ReadContext(contextFile)
	if err != nil {
		return nil, err
	}
	return client.New(e)
}

// answers is nil once the server of the context file answers.
func answers(contextFile string, check func(apiv1.StatusView) error) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := connect(contextFile)
		if err != nil {
			return err
		}
		defer c.Close()
		st, err := c.System.Status(ctx)
		if err != nil {
			return err
		}
		return check(st)
	}
}
