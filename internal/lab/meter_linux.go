package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/lab/emul"
)

// Accuracy is the emulator's own error over some time.
type Accuracy struct {
	// Late is how much later than due packets left the switch, all of them.
	LateP50, LateP99 time.Duration
	Packets          uint64
	// Error of round trips: measured by pings minus what is set. It includes what
	// the kernels at both ends take.
	ErrorP50, ErrorP99 time.Duration
	Pings              int
	// RealTime: the switch had real-time priority.
	RealTime bool
}

// String for people.
func (a Accuracy) String() string {
	s := fmt.Sprintf("packets left the switch late by p50 %.3f ms, p99 %.3f ms (%d)", Milliseconds(a.LateP50), Milliseconds(a.LateP99), a.Packets)
	if a.Pings > 0 {
		s += fmt.Sprintf("; round trips measured minus set p50 %.3f ms, p99 %.3f ms (%d pings)", Milliseconds(a.ErrorP50), Milliseconds(a.ErrorP99), a.Pings)
	}
	if !a.RealTime {
		s += "; without real-time priority"
	}
	return s
}

// Lateness is how late packets left the switch between two looks at it, where pings would
// disturb.
func Lateness(before, after emul.Stats) Accuracy {
	late := after.Late.Since(before.Late)
	return Accuracy{
		LateP50: late.Percentile(0.5), LateP99: late.Percentile(0.99), Packets: late.Count, RealTime: after.RealTime,
	}
}

// Meter measures the emulator's error while something else runs: it pings pairs of
// hosts in turn, at most every Interval.
type Meter struct {
	lab    *Lab
	before emul.Stats
	stop   context.CancelFunc
	done   sync.WaitGroup

	socks []*pinger
}

// pinger sends from one host.
type pinger struct {
	fd     int
	token  uint64 // in its packets: a raw socket sees the answers to others too
	mu     sync.Mutex
	sent   map[uint16]probe
	errors []time.Duration
}

type probe struct {
	at  time.Time
	rtt time.Duration // that is set
}

// PingEvery is how often a meter pings.
const PingEvery = 5 * time.Millisecond

// Measure starts a meter of the links between pairs of hosts, none of which may be
// behind a NAT. Jitter and queues of these links would count as errors.
func (l *Lab) Measure(pairs [][2]string) (*Meter, error) {
	st, err := l.Stats()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &Meter{lab: l, before: st, stop: cancel}
	from := map[string]*pinger{}
	for _, p := range pairs {
		if from[p[0]] != nil {
			continue
		}
		x, err := l.newPinger(p[0])
		if err != nil {
			m.end()
			return nil, fmt.Errorf("ping from %s: %w", p[0], err)
		}
		from[p[0]] = x
		m.socks = append(m.socks, x)
		m.done.Go(func() { x.receive(ctx) })
	}
	m.done.Go(func() {
		runtime.LockOSThread() // and never unlocked: its priority ends with it
		emul.Raise(emul.MeasuringPriority)
		tick := time.NewTicker(PingEvery)
		defer tick.Stop()
		for i := 0; len(pairs) > 0; i++ {
			p := pairs[i%len(pairs)]
			from[p[0]].send(uint16(i), l.Address(p[1]).As4(), l.RTT(st, p[0], p[1]))
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return m, nil
}

func (m *Meter) end() {
	m.stop()
	m.done.Wait()
	for _, x := range m.socks {
		_ = unix.Close(x.fd) // nothing is written to it
	}
}

// Stop ends the measurement. Answers that are on their way do not count.
func (m *Meter) Stop() (Accuracy, error) {
	m.end()
	st, err := m.lab.Stats()
	if err != nil {
		return Accuracy{}, err
	}
	a := Lateness(m.before, st)
	var all []time.Duration
	for _, x := range m.socks {
		all = append(all, x.errors...)
	}
	slices.Sort(all)
	if a.Pings = len(all); a.Pings > 0 {
		a.ErrorP50, a.ErrorP99 = all[len(all)/2], all[len(all)*99/100]
	}
	return a, nil
}

func (l *Lab) newPinger(host string) (*pinger, error) {
	x := &pinger{fd: -1, token: rand.Uint64(), sent: map[uint16]probe{}}
	err := l.Do(host, func() (err error) {
		if x.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP); err != nil {
			// The kernel opens ping sockets to groups; raw ones are root's.
			x.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		}
		return err
	})
	if err == nil {
		err = unix.SetsockoptInt(x.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}
	if err == nil {
		wake := unix.NsecToTimeval(int64(50 * time.Millisecond))
		err = unix.SetsockoptTimeval(x.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wake)
	}
	return x, err
}

func (x *pinger) send(seq uint16, to [4]byte, rtt time.Duration) {
	b := make([]byte, 16)
	const echo = 8
	b[0] = echo
	binary.BigEndian.PutUint16(b[4:], uint16(unix.Getpid()))
	binary.BigEndian.PutUint16(b[6:], seq)
	binary.BigEndian.PutUint64(b[8:], x.token)
	binary.BigEndian.PutUint16(b[2:], checksum(b))
	x.mu.Lock()
	x.sent[seq] = probe{time.Now(), rtt}
	x.mu.Unlock()
	// What cannot be sent is like what is lost.
	_ = unix.Sendto(x.fd, b, 0, &unix.SockaddrInet4{Addr: to})
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// receive takes answers with the kernel's time of their arrival, so that it does
// not matter when this thread gets to them.
func (x *pinger) receive(ctx context.Context) {
	b, oob := make([]byte, 256), make([]byte, 128)
	for ctx.Err() == nil {
		n, oobn, _, _, err := unix.Recvmsg(x.fd, b, oob, 0)
		if err != nil {
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
				continue
			}
			return
		}
		p := b[:n]
		if len(p) > 20 && p[0]>>4 == 4 { // a raw socket shows the IP header
			p = p[int(p[0]&15)*4:]
		}
		at, ok := arrival(oob[:oobn])
		if !ok || len(p) < 16 || p[0] != 0 || binary.BigEndian.Uint64(p[8:]) != x.token {
			continue
		}
		seq := binary.BigEndian.Uint16(p[6:])
		x.mu.Lock()
		if s, ok := x.sent[seq]; ok {
			delete(x.sent, seq)
			x.errors = append(x.errors, at.Sub(s.at)-s.rtt)
		}
		x.mu.Unlock()
	}
}

// arrival is the kernel's timestamp in control messages.
func arrival(oob []byte) (time.Time, bool) {
	list, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return time.Time{}, false
	}
	for _, c := range list {
		if c.Header.Level == unix.SOL_SOCKET && c.Header.Type == unix.SO_TIMESTAMPNS && len(c.Data) >= int(unsafe.Sizeof(unix.Timespec{})) {
			ts := (*unix.Timespec)(unsafe.Pointer(&c.Data[0]))
			return time.Unix(ts.Unix()), true
		}
	}
	return time.Time{}, false
}
