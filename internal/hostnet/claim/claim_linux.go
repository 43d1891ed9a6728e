package claim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// sole is a name that one process in a network namespace can have: two workers would
// each drop what the other sends.
const sole = "\x00verge-service-network"

// devName is a name that verge dev has in the network namespace with its bridge while it runs.
func devName(mark string) string { return "\x00verge-dev-" + mark }

const (
	answerWithin = time.Second
	maxWho       = 512
)

// Claim is a name that this process has in its network namespace: Take's is the right to the
// service network.
type Claim struct {
	ln   net.Listener
	done sync.WaitGroup
}

// TakenError says that somebody else has it.
type TakenError struct{ Who string }

// Error implements error.
func (e *TakenError) Error() string {
	return "one worker of a machine can have the service network, and " + e.Who + " has it"
}

// Take takes the service network of the network namespace for the one that who names.
// It is a *TakenError if somebody has it.
func Take(who string) (*Claim, error) {
	c, err := listen(sole, who)
	if errors.Is(err, unix.EADDRINUSE) {
		if other, has := Holder(); has {
			return nil, &TakenError{other}
		}
		c, err = listen(sole, who) // it has ended meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("take the service network of this machine: %w", err)
	}
	return c, nil
}

// TakeDev says that the verge dev with a mark runs, to whoever removes what is left of others.
// A lock in its directory does not: the directory may have been deleted, or lie in another
// mount namespace.
func TakeDev(mark string) (*Claim, error) {
	c, err := listen(devName(mark), "verge dev")
	if err != nil {
		return nil, fmt.Errorf("verge dev with mark %s: %w", mark, err)
	}
	return c, nil
}

// DevRuns says whether the verge dev with a mark runs; an older one does not say so.
func DevRuns(mark string) bool {
	conn, err := net.DialTimeout("unix", devName(mark), answerWithin)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // nothing was written
	_, uid := peer(conn)
	return uid == 0
}

func listen(name, who string) (*Claim, error) {
	ln, err := net.Listen("unix", name)
	if err != nil {
		return nil, err
	}
	c := &Claim{ln: ln}
	c.done.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return // closed
			}
			_ = conn.SetDeadline(time.Now().Add(answerWithin))
			_, _ = io.WriteString(conn, who) // who asked may be gone
			_ = conn.Close()
		}
	})
	return c, nil
}

// Close gives it back.
func (c *Claim) Close() error {
	err := c.ln.Close()
	c.done.Wait()
	return err
}

// Holder is who has the service network of this network namespace, in words, and
// whether anybody does.
func Holder() (who string, has bool) {
	conn, err := net.DialTimeout("unix", sole, answerWithin)
	if err != nil {
		return "", false
	}
	defer func() { _ = conn.Close() }() // nothing was written
	_ = conn.SetDeadline(time.Now().Add(answerWithin))
	b, _ := io.ReadAll(io.LimitReader(conn, maxWho)) // a process that is stopped does not answer
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, string(bytes.ToValidUTF8(b, nil)))
	pid, uid := peer(conn)
	switch {
	case uid != 0:
		return fmt.Sprintf("process %d of user %d", pid, uid), true // no worker
	case text == "":
		return fmt.Sprintf("process %d", pid), true
	}
	return fmt.Sprintf("%s, process %d,", text, pid), true
}

// peer is the process at the other end of a connection.
func peer(conn net.Conn) (pid, uid int) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, -1
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, -1
	}
	uid = -1
	_ = raw.Control(func(fd uintptr) {
		if c, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid, uid = int(c.Pid), int(c.Uid)
		}
	})
	return pid, uid
}
