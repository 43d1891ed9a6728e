package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Successor is a process that was given what this one holds.
type Successor struct {
	PID   int
	ended chan struct{}
	err   error // of its end
	ready *os.File
	hold  *os.File // closed: it may accept connections
	cmd   *exec.Cmd
}

// Start starts a program as successor, in a session of its own: it does not end with this
// process. It has the sockets and the lock beside this one.
func (s *Sockets) Start(program string, args []string, lock *os.File) (*Successor, error) {
	names, files, err := s.files()
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeAll(files) }() // copies, to which nothing was written
	list, err := writeList(names)
	if err != nil {
		return nil, fmt.Errorf("writing the list of sockets: %w", err)
	}
	defer func() { _ = list.Close() }() // it was written
	ready, said, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	to, hold, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, ready.Close(), said.Close())
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), Env+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.ExtraFiles = append([]*os.File{said, lock, list, to}, files...)
	err = cmd.Start()
	if err := errors.Join(err, said.Close(), to.Close()); err != nil {
		return nil, errors.Join(err, ready.Close(), hold.Close())
	}
	next := &Successor{PID: cmd.Process.Pid, cmd: cmd, ended: make(chan struct{}), ready: ready, hold: hold}
	// Ends with the successor, or with this process.
	go func() {
		defer close(next.ended)
		next.err = cmd.Wait()
	}()
	return next, nil
}

func writeList(names []socket) (*os.File, error) {
	f, err := newList()
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(f).Encode(names); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Wait waits until it says that it is ready, and returns what it says.
func (n *Successor) Wait(ctx context.Context) (said string, err error) {
	defer context.AfterFunc(ctx, func() { _ = n.ready.Close() })()
	b, err := io.ReadAll(io.LimitReader(n.ready, maxSaid))
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("it did not become ready in time: %w", ctx.Err())
	case err != nil:
		return "", err
	case len(b) == 0:
		select {
		case <-n.ended:
			return "", fmt.Errorf("it ended before it was ready: %w", cmpErr(n.err))
		case <-ctx.Done():
			return "", fmt.Errorf("it did not become ready in time: %w", ctx.Err())
		}
	}
	return string(b), n.ready.Close()
}

func cmpErr(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// Ended is closed when it has ended.
func (n *Successor) Ended() <-chan struct{} { return n.ended }

// Go lets it accept connections.
func (n *Successor) Go() { _ = n.hold.Close() } // nothing was written to it

// Kill ends it and waits for that.
func (n *Successor) Kill() {
	_ = n.cmd.Process.Kill() // it may have ended
	<-n.ended
	_ = n.ready.Close() // as below
	_ = n.hold.Close()  // nothing was written to it
}
