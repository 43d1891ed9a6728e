package emul

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
	"unsafe"

	// netlink: addresses, devices and routes without the program ip.
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/onthread"
)

// Port is where a host is connected to the switch.
type Port struct {
	// Host is its name.
	Host string `json:"host"`
	// Namespace is the file of the network namespace that gets the device.
	Namespace string `json:"namespace"`
	// Device is the name of the TUN device there.
	Device string `json:"device"`
	// Uplink is what leaves the host to all others together, in bits per second, before
	// any link; 0 is without limit. UplinkBuffer is how many bytes may wait for it; 0 is
	// as in Link.
	Uplink       int64 `json:"uplink,omitempty"`
	UplinkBuffer int64 `json:"uplink_buffer,omitempty"`
}

// Config of a switch.
type Config struct {
	// Ports by their number, from 0; at most MaxPorts.
	Ports []Port `json:"ports"`
	// Seed of loss and jitter.
	Seed uint64 `json:"seed"`
	// Default is both directions of every link that is not in Links.
	Default Link `json:"default"`
	// Links are directions with settings of their own.
	Links []Set `json:"links"`
	// Sites are hosts that share a connection.
	Sites []Site `json:"sites,omitempty"`
}

// Between is the count of one direction.
type Between struct {
	From  int   `json:"from"`
	To    int   `json:"to"`
	Count Count `json:"count"`
	Link  Link  `json:"link"`
}

// Stats of a switch.
type Stats struct {
	Late Late `json:"late"`
	// Links that have settings of their own or saw a packet.
	Links []Between `json:"links"`
	// Stray packets had no host of the lab as their destination.
	Stray uint64 `json:"stray"`
	// RealTime: the kernel gave the switch real-time priority.
	RealTime bool `json:"real_time"`
}

// Address4 and Address6 are a port's addresses: 198.18.0.0/15, which is set apart
// for test beds, and its counterpart.
func Address4(port int) netip.Addr {
	n := port + 1
	return netip.AddrFrom4([4]byte{198, 18, byte(n >> 8), byte(n)})
}

// Address6 is the address of a port in IPv6.
func Address6(port int) netip.Addr {
	n := port + 1
	a := netip.MustParseAddr("2001:2:0:1::").As16()
	a[14], a[15] = byte(n>>8), byte(n)
	return netip.AddrFrom16(a)
}

// portOf is the port that a packet goes to, and whether it carries anything.
func portOf(b []byte) (port int, data, ok bool) {
	switch {
	case len(b) >= 20 && b[0]>>4 == 4 && b[16] == 198 && b[17] == 18:
		return int(b[18])<<8 + int(b[19]) - 1, carries(b[9], b, int(b[0]&15)*4), true
	case len(b) >= 40 && b[0]>>4 == 6 && [14]byte(b[24:38]) == [14]byte{0x20, 1, 0, 2, 0, 0, 0, 1}:
		return int(b[38])<<8 + int(b[39]) - 1, carries(b[6], b, 40), true
	}
	return 0, false, false
}

func carries(protocol byte, b []byte, header int) bool {
	const tcp = 6
	if protocol != tcp || len(b) < header+13 {
		return protocol != tcp
	}
	return len(b) > header+int(b[header+12]>>4)*4
}

// Switch at work.
type Switch struct {
	ports []Port
	fds   []int
	epoll int
	wake  int // eventfd

	mu    sync.Mutex
	asked []func() // for the loop to do
	ended bool

	// What follows belongs to the loop.
	seed     uint64
	normal   Link
	pipes    []*pipe      // from*len(ports)+to; nil: not used yet
	ups      []*line      // by port; nil: without limit
	sites    []*siteLines // by port; nil: in no site
	lines    [3]*line     // what way returns
	flying   queue
	slots    slots
	seq      uint64
	late     [lateSteps]uint64
	count    uint64
	stray    uint64
	realTime bool
	done     bool
	start    time.Time
}

// Open makes the devices with their addresses. The caller closes the switch.
func Open(c Config) (*Switch, error) {
	if len(c.Ports) > MaxPorts {
		return nil, fmt.Errorf("%d hosts: a switch connects %d at most", len(c.Ports), MaxPorts)
	}
	s := &Switch{ports: c.Ports, seed: c.Seed, normal: c.Default, pipes: make([]*pipe, len(c.Ports)*len(c.Ports)), ups: make([]*line, len(c.Ports)), sites: linesOf(nil, len(c.Ports)), epoll: -1, wake: -1, start: time.Now()}
	if err := s.open(c); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Switch) open(c Config) (err error) {
	for _, l := range append([]Set{{Link: c.Default}}, c.Links...) {
		if err := s.check(l); err != nil {
			return err
		}
	}
	for _, l := range c.Links {
		s.pipe(l.From, l.To).set(l.Link)
	}
	if err := checkSites(c.Sites, len(c.Ports)); err != nil {
		return err
	}
	s.sites = linesOf(c.Sites, len(c.Ports))
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	if err := s.watch(s.wake, -1); err != nil {
		return err
	}
	for i, p := range c.Ports {
		if err := (Link{Rate: p.Uplink, Buffer: p.UplinkBuffer}).Validate(); err != nil {
			return fmt.Errorf("uplink of %s: %w", p.Host, err)
		}
		if p.Uplink > 0 {
			s.ups[i] = &line{rate: p.Uplink, buffer: p.UplinkBuffer}
		}
		fd, err := openTUN(p, Address4(i), Address6(i))
		if err != nil {
			return fmt.Errorf("device of %s: %w", p.Host, err)
		}
		s.fds = append(s.fds, fd)
		if err := s.watch(fd, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *Switch) check(l Set) error {
	if n := len(s.ports); (l.From < 0 || l.From >= n || l.To < 0 || l.To >= n) && n > 0 {
		return fmt.Errorf("link %d to %d: there are %d hosts", l.From, l.To, n)
	}
	return l.Link.Validate()
}

func (s *Switch) watch(fd, port int) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(port)} // what we get back is the port
	if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// Close removes the devices. Run must have ended.
func (s *Switch) Close() {
	for _, fd := range append(s.fds, s.epoll, s.wake) {
		if fd >= 0 {
			_ = unix.Close(fd) // there is nothing to be done about it
		}
	}
}

func openTUN(p Port, v4, v6 netip.Addr) (fd int, err error) {
	fd = -1
	err = onthread.InNetwork(p.Namespace, func() (err error) {
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("open /dev/net/tun (is the kernel's TUN driver there?): %w", err)
		}
		req, err := unix.NewIfreq(p.Device)
		if err != nil {
			return err
		}
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
			return fmt.Errorf("make the device %s: %w", p.Device, err)
		}
		link, err := netlink.LinkByName(p.Device)
		if err != nil {
			return err
		}
		// The kernel's queue towards the switch: it must hold what comes while the
		// switch is not running.
		if err := netlink.LinkSetTxQLen(link, 10000); err != nil {
			return fmt.Errorf("queue of %s: %w", p.Device, err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("%s up: %w", p.Device, err)
		}
		for _, a := range []string{v4.String() + "/15", v6.String() + "/64"} {
			addr, err := netlink.ParseAddr(a)
			if err != nil {
				return err
			}
			addr.Flags = unix.IFA_F_NODAD
			if err := netlink.AddrAdd(link, addr); err != nil {
				return fmt.Errorf("address %s: %w", a, err)
			}
		}
		for _, to := range []string{"0.0.0.0/0", "::/0"} {
			_, all, err := net.ParseCIDR(to)
			if err != nil {
				return err
			}
			if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: all, Scope: netlink.SCOPE_LINK}); err != nil {
				return fmt.Errorf("default route: %w", err)
			}
		}
		return nil
	})
	if err != nil && fd >= 0 {
		_ = unix.Close(fd)
		fd = -1
	}
	return fd, err
}

// pipe of a direction, made at its first use.
func (s *Switch) pipe(from, to int) *pipe {
	p := &s.pipes[from*len(s.ports)+to]
	if *p == nil {
		*p = newPipe(s.normal, s.seed, from, to)
	}
	return *p
}

// do has the loop call f, and waits for it.
func (s *Switch) do(f func()) error {
	done := make(chan struct{})
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return errors.New("the switch has ended")
	}
	s.asked = append(s.asked, func() { f(); close(done) })
	s.mu.Unlock()
	s.ring()
	<-done
	return nil
}

func (s *Switch) ring() {
	one := [8]byte{1}
	_, _ = unix.Write(s.wake, one[:]) // full: it rings already
}

// Set changes directions of links, all at once.
func (s *Switch) Set(links []Set) error {
	for _, l := range links {
		if err := s.check(l); err != nil {
			return err
		}
	}
	return s.do(func() {
		for _, l := range links {
			s.pipe(l.From, l.To).set(l.Link)
		}
	})
}

// Stats of now.
func (s *Switch) Stats() (out Stats, err error) {
	err = s.do(func() {
		out = Stats{Late: Late{Count: s.count}, Stray: s.stray, RealTime: s.realTime}
		end := lateSteps
		for end > 0 && s.late[end-1] == 0 {
			end--
		}
		out.Late.Steps = append(out.Late.Steps, s.late[:end]...)
		for i, p := range s.pipes {
			if p != nil {
				out.Links = append(out.Links, Between{From: i / len(s.ports), To: i % len(s.ports), Count: p.count, Link: p.Link})
			}
		}
	})
	return out, err
}

// Run hands packets on until ctx ends.
func (s *Switch) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = s.do(func() { s.done = true }) })()
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: its priority ends with it
		s.realTime = Raise(switchPriority)
		ended <- s.loop()
	}()
	err := <-ended
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, f := range s.asked {
		f()
	}
	return err
}

// Priorities: of the switch, and of who sends and answers in experiments.
const (
	switchPriority    = 20
	MeasuringPriority = 10
)

// Raise gives the calling thread, which must be locked, real-time priority and
// exact timers; false if the kernel does not permit the priority. The switch has a
// higher one than what is measured with it should have.
func Raise(priority int32) bool {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // else timers are up to 50 µs late
	return prioritise(0, priority)
}

// RaiseAll gives all threads of this process real-time priority, not those to
// come, nor processes that it starts; lower takes it from all threads again.
func RaiseAll(priority int32) (lower func()) {
	set := func(policy int, priority int32) {
		for _, t := range threads() {
			// A thread may have ended; without the right for it they stay as they are.
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(t), uintptr(policy), uintptr(unsafe.Pointer(&priority)))
		}
	}
	set(unix.SCHED_FIFO|unix.SCHED_RESET_ON_FORK, priority)
	return func() { set(unix.SCHED_NORMAL|unix.SCHED_RESET_ON_FORK, 0) }
}

// threads of this process; none where /proc does not say.
func threads() (out []int) {
	entries, _ := os.ReadDir("/proc/self/task")
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, id)
		}
	}
	return out
}

// prioritise gives a thread real-time priority; 0 is the calling one.
func prioritise(thread int, priority int32) bool {
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(thread), unix.SCHED_FIFO, uintptr(unsafe.Pointer(&priority)))
	return errno == 0
}

// Quiet keeps the rest of this process from stopping the loop; it is for one that
// is a switch alone. There is no garbage collection: what the loop uses it
// allocates once. And all threads have the loop's priority, those to come too: the
// runtime takes a long-running goroutine from its thread now and then, and it is
// another thread that gives it back.
func Quiet() {
	for _, t := range threads() {
		prioritise(t, switchPriority)
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(512 << 20)
	if runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2) // the loop holds one while it waits
	}
}

// now in nanoseconds since the start.
func (s *Switch) now() int64 { return int64(time.Since(s.start)) }

func (s *Switch) loop() error {
	events := make([]unix.EpollEvent, 128)
	for !s.done {
		s.send()
		n, err := s.wait(events)
		if err != nil {
			return err
		}
		for _, e := range events[:n] {
			if e.Fd >= 0 {
				s.receive(int(e.Fd))
				continue
			}
			var rung [8]byte
			_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(s.wake), uintptr(unsafe.Pointer(&rung[0])), 8)
			s.mu.Lock()
			asked := s.asked
			s.asked = nil
			s.mu.Unlock()
			for _, f := range asked {
				f()
			}
		}
	}
	return nil
}

// spin is for how long before a packet is due the loop looks instead of sleeping:
// a processor that sleeps takes about that long to wake up.
const spin = 50_000 // ns

// wait until something comes or the first packet is nearly due.
func (s *Switch) wait(events []unix.EpollEvent) (int, error) {
	var timeout *unix.Timespec
	if len(s.flying) > 0 {
		t := unix.NsecToTimespec(max(0, s.flying[0].due-s.now()-spin))
		timeout = &t
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(s.epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(unsafe.Pointer(timeout)), 0, 0)
	switch {
	case errno == 0:
		return int(n), nil
	case errno == unix.EINTR:
		return 0, nil
	case errno == unix.ENOSYS:
		return 0, errors.New("epoll_pwait2 is missing: the lab needs Linux 5.11 or newer")
	}
	return 0, fmt.Errorf("epoll: %w", errno)
}

// send hands out what is due.
func (s *Switch) send() {
	for len(s.flying) > 0 {
		now := s.now()
		if s.flying[0].due > now {
			return
		}
		f := s.flying.pop()
		if f.pipe.deliver() {
			s.late[step(now-f.due)]++
			s.count++
			b := s.slots.bytes(f.slot)
			if _, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(s.fds[f.to]), uintptr(unsafe.Pointer(&b[0])), uintptr(f.size)); errno != 0 {
				// The host's device is down or its queue is full.
				f.pipe.count.Delivered--
				f.pipe.count.Dropped++
			}
		}
		s.slots.give(f.slot)
	}
}

// receive takes what a host has sent, but not for so long that others wait.
func (s *Switch) receive(from int) {
	const atOnce = 32
	for range atOnce {
		slot, ok := s.slots.take()
		if !ok {
			var none [1]byte // a packet for which there is no room: it is lost
			_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(s.fds[from]), uintptr(unsafe.Pointer(&none[0])), 1)
			return
		}
		b := s.slots.bytes(slot)
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(s.fds[from]), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if errno != 0 || n == 0 {
			s.slots.give(slot)
			return
		}
		now := s.now()
		to, data, ok := portOf(b[:n])
		if !ok || to < 0 || to >= len(s.ports) {
			s.stray++
			s.slots.give(slot)
			continue
		}
		p := s.pipe(from, to)
		due, ok := p.admit(s.way(from, to), now, int(n), data)
		if !ok {
			s.slots.give(slot)
			continue
		}
		s.seq++
		s.flying.push(flight{due: due, seq: s.seq, pipe: p, to: int32(to), slot: slot, size: int32(n)})
	}
}
