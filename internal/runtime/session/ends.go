package session

import (
	"fmt"
	"os"

	"github.com/creack/pty" // pseudo-terminals, which every system opens in another way
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/wire/rpc"
)

// endOfFile is the character that ends the input on a terminal.
const endOfFile = 4

// ends are one side of the pipes or of the terminal between us and a program.
type ends struct {
	in  *os.File
	out [2]*os.File
	// terminal is both in and out[0].
	terminal bool
}

// close closes them; once more does nothing.
func (e *ends) close() {
	for _, f := range []*os.File{e.in, e.out[0], e.out[1]} {
		if f != nil {
			_ = f.Close() // pipes and terminals keep nothing back
		}
	}
}

func (s *Session) openPipes(stdin bool) error {
	var err error
	for i := range s.ours.out {
		if s.ours.out[i], s.theirs.out[i], err = os.Pipe(); err != nil {
			return fmt.Errorf("open a pipe: %w", err)
		}
	}
	if stdin {
		if s.theirs.in, s.ours.in, err = os.Pipe(); err != nil {
			return fmt.Errorf("open a pipe: %w", err)
		}
	}
	s.child.Stdin, s.child.Stdout, s.child.Stderr = s.theirs.in, s.theirs.out[0], s.theirs.out[1]
	return nil
}

func (s *Session) openTerminal(size *rpc.Terminal) error {
	ours, line, err := pty.Open()
	if err != nil {
		return fmt.Errorf("open a terminal: %w", err)
	}
	defer ours.Close() //nolint:errcheck // we keep a duplicate
	s.theirs.in = line
	s.child.Stdin, s.child.Stdout, s.child.Stderr, s.child.Terminal = line, line, line, true
	// The library leaves it blocking, so that a reader could not be let go.
	fd, err := unix.FcntlInt(ours.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a terminal: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("open a terminal: %w", err)
	}
	f := os.NewFile(uintptr(fd), "terminal")
	s.ours = ends{in: f, out: [2]*os.File{f, nil}, terminal: true}
	s.resize(size)
	return nil
}

// resize sets the size of the terminal, if there is one.
func (s *Session) resize(size *rpc.Terminal) {
	if !s.ours.terminal || size.Rows <= 0 || size.Columns <= 0 {
		return
	}
	conn, err := s.ours.in.SyscallConn()
	if err != nil {
		return // closed
	}
	const most = 1<<16 - 1
	_ = conn.Control(func(fd uintptr) { // fails for what is closed
		// A size is for show: a program goes on without.
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{
			Row: uint16(min(size.Rows, most)), Col: uint16(min(size.Columns, most)),
		})
	})
}

// endInput says that there is no more input: to a program with a terminal as a
// person would.
func (s *Session) endInput() {
	if s.ours.terminal {
		_, _ = s.ours.in.Write([]byte{endOfFile}) // fails when the program has ended
		return
	}
	_ = s.ours.in.Close()
}
