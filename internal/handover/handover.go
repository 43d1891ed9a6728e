// Package handover passes what a process holds to its successor: the sockets that it
// listens at, and the lock of its folder.
//
// Promises:
//
//  1. A socket that is handed over is the same one: a client that has connected and was
//     not accepted yet is accepted by one of the two processes, and a datagram that has
//     come is read by one of them.
//  2. The lock is never free in between: nobody else gets it.
//  3. A successor that ends leaves its predecessor with all it had.
//  4. A successor accepts no connection at a socket that it was given before it is told to,
//     or its predecessor is gone.
package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Env is set for a successor, and taken out of its environment by Take.
const Env = "VERGE_HANDOVER"

// Descriptors of a successor, after the standard ones. The sockets follow, in the order of
// their names in the list.
const (
	readyFD = 3 + iota
	lockFD
	listFD
	goFD
	firstFD
)

// Chosen is the name of sockets of which the process remembers the port that the system
// chose, and asks for that.
const Chosen = "chosen"

const (
	maxSockets = 64 << 10
	maxList    = 16 << 20
	// maxSaid bounds what a successor says when it is ready.
	maxSaid = 4 << 10
)

// Sockets are those that a process listens at, by name. The zero value has none.
type Sockets struct {
	mu     sync.Mutex
	open   map[socket]held
	given  map[socket]*os.File // by the process before, and not taken yet
	closed int                 // how many were open when those that are not were dropped
	wait   chan struct{}       // closed when connections may be accepted; nil: they may
}

// socket is what a socket is for, and the address that was asked for.
type socket struct{ Name, Address string }

// held is a socket of this process.
type held interface {
	syscall.Conn
	io.Closer
}

// Listen listens at a TCP address, by the socket of that name and address of the process
// before, if there is one.
func (s *Sockets) Listen(ctx context.Context, lc net.ListenConfig, name, network, address string) (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := socket{name, address}
	ln, err := takeLocked(s, key, net.FileListener)
	given := ln != nil
	if err == nil && !given {
		ln, err = lc.Listen(ctx, network, address)
	}
	if err != nil {
		return nil, err
	}
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s %s is no TCP socket but %T", name, address, ln), ln.Close())
	}
	if _, port, err := net.SplitHostPort(address); err == nil && port == "0" && name == Chosen {
		key.Address = tcp.Addr().String()
	}
	s.keepLocked(key, tcp)
	if s.wait == nil || !given { // at one of its own nobody else would accept anything
		return tcp, nil
	}
	return &patient{TCPListener: tcp, wait: s.wait, closed: make(chan struct{}), rests: lc.KeepAlive < 0}, nil
}

// ListenPacket is Listen for datagrams, of UDP. A successor that has a socket of the process
// before reads beside it, each datagram being read once.
func (s *Sockets) ListenPacket(ctx context.Context, lc net.ListenConfig, name, network, address string) (net.PacketConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := socket{name, address}
	conn, err := takeLocked(s, key, net.FilePacketConn)
	if err == nil && conn == nil {
		conn, err = lc.ListenPacket(ctx, network, address)
	}
	if err != nil {
		return nil, err
	}
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s %s is no UDP socket but %T", name, address, conn), conn.Close())
	}
	s.keepLocked(key, udp)
	return udp, nil
}

func (s *Sockets) keepLocked(key socket, h held) {
	if s.open == nil {
		s.open = map[socket]held{}
	}
	s.open[key] = h
	s.dropLocked()
}

// takeLocked is a socket of the process before, made of its file; zero where it gave none.
func takeLocked[T any](s *Sockets, key socket, of func(*os.File) (T, error)) (T, error) {
	f := s.given[key]
	if f == nil {
		var none T
		return none, nil
	}
	delete(s.given, key)
	x, err := of(f)
	return x, errors.Join(err, f.Close())
}

// dropLocked forgets sockets that were closed, now and then.
func (s *Sockets) dropLocked() {
	if len(s.open) < 2*s.closed+64 {
		return
	}
	for key, ln := range s.open {
		if !isOpen(ln) {
			delete(s.open, key)
		}
	}
	s.closed = len(s.open)
}

func isOpen(h held) bool {
	raw, err := h.SyscallConn()
	return err == nil && raw.Control(func(uintptr) {}) == nil
}

// settle closes what the process before gave and nobody has asked for, and lets
// connections be accepted.
func (s *Sockets) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, f := range s.given {
		_ = f.Close() // nothing was written to it
		delete(s.given, key)
	}
	close(s.wait)
	s.wait = nil
}

// files are copies of what is open, and their names.
func (s *Sockets) files() (names []socket, files []*os.File, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, ln := range s.open {
		if !isOpen(ln) {
			continue
		}
		f, err := duplicate(ln)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("copying the socket of %s %s: %w", key.Name, key.Address, err), closeAll(files))
		}
		names, files = append(names, key), append(files, f)
	}
	return names, files, nil
}

// duplicate is another descriptor of a socket. File of a socket gives one as well, but to
// give that to another process makes the socket blocking, also here: whoever accepts a
// connection then would not hear of its end.
func duplicate(h held) (f *os.File, err error) {
	raw, err := h.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) {
		var n int
		if n, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			f = os.NewFile(uintptr(n), "socket")
		}
	})
	return f, errors.Join(failed, err)
}

func closeAll(files []*os.File) (err error) {
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// patient is a listener of a successor.
type patient struct {
	*net.TCPListener
	wait   <-chan struct{}
	once   sync.Once
	closed chan struct{}
	rests  bool // connections send nothing while they rest
}

// Accept implements net.Listener.
func (l *patient) Accept() (net.Conn, error) {
	select {
	case <-l.wait:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	if l.rests { // that is no quality of a socket that was handed over
		_ = c.SetKeepAlive(false) // fails only on a connection that is gone, which the next read says
	}
	return c, nil
}

// Close implements net.Listener.
func (l *patient) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.TCPListener.Close()
}

// Inheritance is what a process got from the one before.
type Inheritance struct {
	Sockets *Sockets
	// Lock is the file that the one before has locked; it is locked as long as one of the
	// two has it.
	Lock      *os.File
	ready, to *os.File
}

// Take takes over what the process before gave; nil if there was none. It is called once,
// before anything else opens files.
func Take() (*Inheritance, error) {
	if os.Getenv(Env) == "" {
		return nil, nil
	}
	if err := os.Unsetenv(Env); err != nil {
		return nil, err
	}
	in := &Inheritance{
		Lock: os.NewFile(lockFD, "lock"), ready: os.NewFile(readyFD, "ready"),
		to:      pipe(goFD, "go"),
		Sockets: &Sockets{given: map[socket]*os.File{}, wait: make(chan struct{})},
	}
	list := os.NewFile(listFD, "list")
	if in.Lock == nil || in.ready == nil || in.to == nil || list == nil {
		return nil, fmt.Errorf("%s is set, and the descriptors that belong to it are not there", Env)
	}
	names, err := readList(list)
	if err := errors.Join(err, list.Close()); err != nil {
		return nil, fmt.Errorf("reading the list of sockets: %w", err)
	}
	for i, name := range names {
		f := os.NewFile(uintptr(firstFD+i), name.Address)
		if f == nil {
			return nil, fmt.Errorf("the socket of %s %s was not handed over", name.Name, name.Address)
		}
		in.Sockets.given[name] = f
	}
	return in, nil
}

func readList(list *os.File) (names []socket, err error) {
	b, err := io.ReadAll(io.NewSectionReader(list, 0, maxList))
	if err == nil {
		err = json.Unmarshal(b, &names)
	}
	if err == nil && len(names) > maxSockets {
		err = fmt.Errorf("%d sockets are more than %d", len(names), maxSockets)
	}
	return names, err
}

// pipe is a descriptor of which a read can be interrupted.
func pipe(fd int, name string) *os.File {
	_ = syscall.SetNonblock(fd, true) // else the wait for it cannot be interrupted
	return os.NewFile(uintptr(fd), name)
}

// Ready tells the process before that this one works, and waits until that lets it accept
// connections, is gone, or ctx is done. It may be called on nil.
func (in *Inheritance) Ready(ctx context.Context, said string) error {
	if in == nil {
		return nil
	}
	_, err := io.WriteString(in.ready, said)
	err = errors.Join(err, in.ready.Close())
	stop := context.AfterFunc(ctx, func() { _ = in.to.SetReadDeadline(time.Unix(1, 0)) })
	_, _ = in.to.Read(make([]byte, 1)) // it says nothing, and ends
	stop()
	in.Sockets.settle()
	return errors.Join(err, in.to.Close())
}
