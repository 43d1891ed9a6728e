package setpriv

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// A spare is this process before it knows what to become: Go's runtime has begun, which is
// most of what a start as a user takes. It waits at a socket for one message, and ends with
// the other end of that. Until then it is root's, and nothing but this package runs in it.

const (
	spareArg = "spare"
	// socketFD is where a spare waits. It becomes reportFD.
	socketFD = 3
	// mostMessage bounds a message, in bytes: sockets pass so much in one piece. Programs with
	// more arguments and variables do not come from a spare.
	mostMessage = 64 << 10
	// mostFDs bounds the descriptors of a message: two namespaces, the report, those of the
	// program, and a control group in each hierarchy.
	mostFDs = 64
	headLen = 3 + 1 + 1 // number of arguments; whether there is a network; file mode mask
)

// SpareArgv and SpareEnviron are what to execute Binary with for a spare. Its descriptor 3 is
// a socket of SOCK_SEQPACKET.
func SpareArgv() []string { return []string{name, spareArg} }

// SpareEnviron is the environment of a spare.
func SpareEnviron() []string { return (&Command{}).Environ() }

// ErrTooLarge says that a program cannot come from a spare.
var ErrTooLarge = errors.New("its arguments and variables are too many for a spare")

// Message tells a spare to become the program, in a session of its own and with a file mode
// mask. With it go descriptors, in this order: the write end of the pipe for Report, standard
// input, output and error, the network namespace if network is set, the mount namespace if
// c.Mounts is, and c.Groups control groups.
func (c *Command) Message(network bool, umask byte) ([]byte, error) {
	args, env := c.Argv()[1:], c.Environ()
	text := strings.Join(append(args, env...), "\x00")
	if strings.Count(text, "\x00") != len(args)+len(env)-1 {
		return nil, syscall.EINVAL // execve(2) cannot have it either
	}
	if headLen+len(text) > mostMessage || c.Groups > mostFDs/2 {
		return nil, ErrTooLarge
	}
	n, has := len(args), byte(0) // of the former three bytes are enough
	if network {
		has = 1
	}
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), has, umask}, text...), nil
}

// wait does not return.
func wait() {
	syscall.CloseOnExec(socketFD)
	b, rights := make([]byte, mostMessage), make([]byte, syscall.CmsgSpace(4*mostFDs))
	n, oob, _, _, err := syscall.Recvmsg(socketFD, b, rights, syscall.MSG_CMSG_CLOEXEC)
	for errors.Is(err, syscall.EINTR) {
		n, oob, _, _, err = syscall.Recvmsg(socketFD, b, rights, syscall.MSG_CMSG_CLOEXEC)
	}
	if err != nil || n < headLen {
		os.Exit(0) // nobody needs it any more
	}
	fds, err := received(rights[:oob])
	count, network, mask := int(b[0])|int(b[1])<<8|int(b[2])<<16, b[3] == 1, int(b[4])
	text := strings.Split(string(b[headLen:n]), "\x00")
	least := 4
	if network {
		least++
	}
	if err != nil || len(fds) < least || count > len(text) {
		os.Exit(1)
	}
	// What was received has greater numbers than what it replaces.
	for to, from := range [4]int{fds[1], fds[2], fds[3], fds[0]} {
		if err := syscall.Dup3(from, to, 0); err != nil {
			os.Exit(1)
		}
		_ = syscall.Close(from) // it has another number now
	}
	at, rest := passed{network: -1}, fds[4:]
	if network {
		at.network, rest = rest[0], rest[1:]
	}
	for i, fd := range rest {
		if fd != rest[0]+i { // the kernel gives numbers in a row, as nothing else runs here
			os.Exit(1)
		}
	}
	if len(rest) > 0 {
		at.others = rest[0]
	}
	syscall.Umask(mask)
	if _, err := syscall.Setsid(); err != nil {
		os.Exit(1)
	}
	become(text[:count], text[count:], at)
}

// received are the descriptors that came with a message.
func received(rights []byte) (fds []int, err error) {
	list, err := syscall.ParseSocketControlMessage(rights)
	for i := range list {
		more, rerr := syscall.ParseUnixRights(&list[i])
		fds, err = append(fds, more...), errors.Join(err, rerr)
	}
	return fds, err
}
