package daemon

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/cli/daemonflags"
	"github.com/verge-edge/verge/internal/hostnet"
	"github.com/verge-edge/verge/internal/hostnet/claim"
	"github.com/verge-edge/verge/internal/leftover"
	"github.com/verge-edge/verge/internal/onthread"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// devUplink is the device of a worker in its network namespace.
	devUplink = "eth0"
	// devLabel begins the labels of bridges, as hostnet.DevForwards does.
	devLabel = "verge dev"
	// devAsk bounds how long a worker has to say how it is.
	devAsk = 5 * time.Second
	// maxDevLabel is what the kernel takes as the label of a device.
	maxDevLabel = 255
	// devHostNet is the descriptor of the network namespace of verge dev in its workers.
	devHostNet = 3
)

// devBits are those of the network of a verge dev, in devRange.
const devBits = 20

// devNetwork connects the workers of verge dev, which are processes in network namespaces of
// their own: a bridge, and an nftables table that lets them reach what this machine reaches.
// Methods may be called on nil, which has no workers.
type devNetwork struct {
	dir, mark string
	bridge    *netlink.Bridge
	runs      *claim.Claim // says that the bridge is in use
	prefix    netip.Prefix // of the bridge, with its address
	forwards  bool         // it let the machine forward packets

	mu       sync.Mutex
	children []*devChild
}

// devChild is the process of a worker.
type devChild struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	states chan devState
	ended  chan struct{}
	stops  bool // it was told to end; guarded by mu of devNetwork
}

// devMark is part of the names that verge dev uses in the kernel, as workers have a mark.
func devMark(dir string) string { return wire.Mark(dir)[:5] }

func devBridgeName(mark string) string { return hostnet.Devices + mark + hostnet.DevBridge }

func devTable(mark string) *nftables.Table {
	return &nftables.Table{Family: nftables.TableFamilyIPv4, Name: hostnet.DevTables + mark}
}

// openDevNetwork makes the network. An error says why there can be none, and nothing is left.
// optional: rules of others that are in the way are a reason as well.
func openDevNetwork(dir string, optional bool) (made *devNetwork, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("verge dev is not run by root")
	}
	if err := hostnet.Rights(); err != nil {
		return nil, err
	}
	for _, f := range [][2]string{{"/proc/sys/net/ipv6", "IPv6 is switched off in the kernel"},
		{"/dev/net/tun", "there is no /dev/net/tun"}} {
		if _, err := os.Stat(f[0]); err != nil {
			return nil, errors.New(f[1])
		}
	}
	if optional {
		if list, err := hostnet.Filters(); err == nil && len(list) > 0 {
			return nil, fmt.Errorf("%v; let them pass: %s", list[0], list[0].Remedy())
		}
	}
	n := &devNetwork{dir: dir, mark: devMark(dir)}
	if n.prefix, err = freeNetwork(n.mark); err != nil {
		return nil, err
	}
	if n.runs, err = claim.TakeDev(n.mark); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			made, err = nil, errors.Join(err, n.remove())
		}
	}()
	if err := n.makeBridge(); err != nil {
		return nil, fmt.Errorf("making a bridge: %w", err)
	}
	if err := n.makeTable(); err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	if err := onthread.Do(func() error { return unix.Unshare(unix.CLONE_NEWNET) }); err != nil {
		return nil, fmt.Errorf("making a network namespace: %w", err)
	}
	if n.forwards {
		if err := hostnet.BeginForwarding(); err != nil {
			n.forwards = false // there is nothing to undo
			return nil, err
		}
	}
	return n, nil
}

// freeNetwork is a network of devRange that this machine has no route to, with its first
// address. The same directory has the same one where it can.
func freeNetwork(mark string) (netip.Prefix, error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return netip.Prefix{}, fmt.Errorf("listing routes: %w", err)
	}
	var taken []netip.Prefix
	for i := range routes {
		if dst := routes[i].Dst; dst != nil {
			if p, err := netip.ParsePrefix(dst.String()); err == nil && p.Bits() > 0 {
				taken = append(taken, p)
			}
		}
	}
	first, err := strconv.ParseUint(mark, 16, 32)
	if err != nil {
		return netip.Prefix{}, err
	}
	return pickNetwork(uint32(first), taken)
}

// pickNetwork is the first network from number first on that overlaps none of those taken.
func pickNetwork(first uint32, taken []netip.Prefix) (netip.Prefix, error) {
	const count = 1 << (devBits - 15)
	base := binary.BigEndian.Uint32(devRange.Addr().AsSlice())
next:
	for i := range uint32(count) {
		p := netip.PrefixFrom(devAddr(base+(first+i)%count<<(32-devBits)+1), devBits)
		for _, t := range taken {
			if t.Overlaps(p) {
				continue next
			}
		}
		return p, nil
	}
	return netip.Prefix{}, fmt.Errorf("no network of %s is free", devRange)
}

func devAddr(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}

func (n *devNetwork) addr() netip.Addr { return n.prefix.Addr() }

func (n *devNetwork) makeBridge() error {
	if err := removePorts(n.mark); err != nil { // of one that ended a moment ago
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = devBridgeName(n.mark)
	// One of its own: else it is that of a worker, and changes with them.
	attrs.HardwareAddr = append(net.HardwareAddr{0x02, 0x56}, n.prefix.Addr().AsSlice()...)
	b := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(b); err != nil {
		return err
	}
	n.bridge = b
	label := devLabel
	if !hostnet.Forwards() || hostnet.ForwardsForDev() { // the last verge dev undoes it
		n.forwards, label = true, hostnet.DevForwards
	}
	label += ", in " + n.dir
	if err := netlink.LinkSetAlias(b, label[:min(len(label), maxDevLabel)]); err != nil {
		return err
	}
	if err := netlink.AddrAdd(b, &netlink.Addr{IPNet: ipNet(n.prefix)}); err != nil {
		return err
	}
	return netlink.LinkSetUp(b)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// makeTable lets workers reach what this machine reaches, and nobody else the workers.
func (n *devNetwork) makeTable() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := conn.AddTable(devTable(n.mark))
	bridge := make([]byte, unix.IFNAMSIZ)
	copy(bridge, n.bridge.Name)
	device := func(key expr.MetaKey, op expr.CmpOp) []expr.Any {
		return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: bridge}}
	}
	post := conn.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	mask := ipNet(n.prefix).Mask
	masquerade := append(device(expr.MetaKeyOIFNAME, expr.CmpOpNeq),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: n.prefix.Masked().Addr().AsSlice()},
		&expr.Masq{})
	conn.AddRule(&nftables.Rule{Table: table, Chain: post, Exprs: masquerade})
	forward := conn.AddChain(&nftables.Chain{
		Name: "forward", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
	})
	strangers := append(device(expr.MetaKeyOIFNAME, expr.CmpOpEq), device(expr.MetaKeyIIFNAME, expr.CmpOpNeq)...)
	strangers = append(strangers,
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitNEW), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
		&expr.Verdict{Kind: expr.VerdictDrop})
	conn.AddRule(&nftables.Rule{Table: table, Chain: forward, Exprs: strangers})
	return conn.Flush()
}

// start starts a worker in a process and a network namespace of its own. fail is called if it
// ends by itself.
func (n *devNetwork) start(i int, w devWorker, p daemonflags.Process, fail func(error)) error {
	own := binary.BigEndian.Uint32(n.prefix.Addr().AsSlice()) + 1 + uint32(i) //nolint:gosec // bounded by the flags
	w.Addr, w.Via = netip.PrefixFrom(devAddr(own), devBits), n.prefix.Addr()
	if !n.prefix.Contains(w.Addr.Addr()) {
		return fmt.Errorf("%s has no address for worker %d; start it with --network loopback, or fewer workers",
			n.prefix.Masked(), i+1)
	}
	w.Data = netip.AddrPortFrom(w.Addr.Addr(), 0).String()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program to start a worker: %w", err)
	}
	host, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return err
	}
	defer func() { _ = host.Close() }() // the worker has its own
	c := &devChild{name: w.Name, states: make(chan devState, 1), ended: make(chan struct{})}
	c.cmd = exec.Command(self, "dev-worker", "--data-dir", w.Dir, "--log-format", p.LogFormat, "--log-level",
		p.LogLevel)
	c.cmd.Stderr = p.Stderr
	c.cmd.ExtraFiles = []*os.File{host}
	// In a process group of its own: Ctrl-C is for verge dev, which ends it in order. When
	// verge dev is gone its standard input ends, and so does the worker.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Setpgid: true}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("starting the process of worker %s: %w", w.Name, err)
	}
	n.mu.Lock()
	n.children = append(n.children, c)
	n.mu.Unlock()
	go func() { // stop waits for it
		defer close(c.ended)
		for d := json.NewDecoder(out); ; {
			var s devState
			if d.Decode(&s) != nil {
				break
			}
			select {
			case c.states <- s:
			default: // nobody asks any more
			}
		}
		err := c.cmd.Wait()
		n.mu.Lock()
		stops := c.stops
		n.mu.Unlock()
		if !stops {
			fail(fmt.Errorf("the process of worker %s ended: %w", w.Name, cmpErr(err)))
		}
	}()
	if err := n.connect(i, c.cmd.Process.Pid); err != nil {
		return fmt.Errorf("connecting worker %s: %w", w.Name, err)
	}
	// Without the newline of an Encoder, which would ask how the worker is.
	b, err := json.Marshal(w)
	if err == nil {
		_, err = c.stdin.Write(b)
	}
	if err != nil {
		return fmt.Errorf("starting worker %s: %w", w.Name, err)
	}
	return nil
}

func cmpErr(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// connect gives a process, which has a network namespace of its own, a device there.
func (n *devNetwork) connect(i, pid int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = fmt.Sprintf("%s%x", devPorts(n.mark), i)
	attrs.MasterIndex = n.bridge.Index
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: devUplink, PeerNamespace: netlink.NsPid(pid)}
	if err := netlink.LinkAdd(veth); err != nil {
		return err
	}
	return netlink.LinkSetUp(veth)
}

// devPorts is how the names of the devices begin that workers are connected by.
func devPorts(mark string) string { return hostnet.Devices + mark + "v" }

// removePorts removes these devices. The kernel does it too, but only a while after the
// process of a worker has ended, when the network namespace is taken down.
func removePorts(mark string) error {
	links, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("listing devices: %w", err)
	}
	var errs []error
	for _, l := range links {
		if !strings.HasPrefix(l.Attrs().Name, devPorts(mark)) {
			continue
		}
		if err := netlink.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, fmt.Errorf("removing %s: %w", l.Attrs().Name, err))
		}
	}
	return errors.Join(errs...)
}

// ask asks all workers how they are. One that does not say is left out.
func (n *devNetwork) ask(ctx context.Context) (states []devState) {
	if n == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, devAsk)
	defer cancel()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.children {
		if _, err := io.WriteString(c.stdin, "\n"); err != nil {
			continue // it has ended
		}
		select {
		case s := <-c.states:
			states = append(states, s)
		case <-ctx.Done():
		}
	}
	return states
}

// stop ends all workers. One that does not end within devStop is killed.
func (n *devNetwork) stop() {
	if n == nil {
		return
	}
	n.mu.Lock()
	children := n.children
	for _, c := range children {
		c.stops = true
		_ = c.stdin.Close() // it may have ended
	}
	n.mu.Unlock()
	timeout := time.After(devStop + devStop/4) // it has devStop itself
	for _, c := range children {
		select {
		case <-c.ended:
		case <-timeout:
			for _, c := range children {
				_ = c.cmd.Process.Kill() // it may have ended
			}
			<-c.ended
		}
	}
}

// remove removes the network.
func (n *devNetwork) remove() error {
	if n == nil {
		return nil
	}
	defer func() { _ = n.runs.Close() }() // nothing was written
	if n.bridge == nil {
		return nil
	}
	errs := []error{removePorts(n.mark)}
	if n.forwards {
		errs = append(errs, hostnet.EndForwarding(devTable(n.mark).Name))
	}
	if conn, err := nftables.New(); err != nil {
		errs = append(errs, err)
	} else {
		conn.DelTable(devTable(n.mark))
		if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, err)
		}
	}
	if err := netlink.LinkDel(n.bridge); err != nil && !errors.Is(err, unix.ENODEV) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

var devLabelled = regexp.MustCompile(`^` + devLabel + `.*?, in (/.*)$`)

// cleanDev removes the leftovers of killed verge dev processes with the service network: the one
// of dir, and others. The leftovers of their workers end first. It fails only if a worker in dir
// still runs.
func cleanDev(ctx context.Context, dir string, log *slog.Logger) error {
	if hostnet.Rights() != nil {
		return nil //nolint:nilerr // whoever has made it has more rights
	}
	links, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("listing devices: %w", err)
	}
	for _, l := range links {
		m := devLabelled.FindStringSubmatch(l.Attrs().Alias)
		if m == nil || l.Attrs().Name != devBridgeName(devMark(m[1])) {
			continue
		}
		own := m[1] == dir
		err := cleanOne(ctx, m[1], own, log)
		if own && isRunning(err) {
			return err
		}
		if err != nil {
			log.Warn("not all that a verge dev left could be removed", "dir", m[1], "error", err)
		}
	}
	return nil
}

// cleanOne removes what the verge dev of a directory left; not where it runs. own: the caller
// has its lock.
func cleanOne(ctx context.Context, dir string, own bool, log *slog.Logger) error {
	if !own {
		// Where the directory is gone, or is not to be seen from here, its lock says nothing.
		if _, err := leftover.Find(ctx, leftover.Options{Dir: dir}); isRunning(err) {
			return nil
		}
		unlock, err := atomicfile.Lock(filepath.Join(dir, "dev.lock"))
		if err == nil {
			defer unlock()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil // it has just been started
		}
	}
	log.Info("removing what a verge dev left that was killed", "dir", dir)
	dirs, err := filepath.Glob(filepath.Join(dir, "workers", "*"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, devStop+devStop/4)
	defer cancel()
	var errs []error
	for _, d := range append(dirs, dir) {
		list, err := leftWhenEnded(ctx, d)
		if isRunning(err) {
			return err
		}
		errs = append(errs, err)
		for i := range list {
			errs = append(errs, leftover.Remove(ctx, leftover.Options{}, &list[i]))
		}
	}
	return errors.Join(errs...)
}

// isRunning says whether an error of leftover is that what was asked for runs.
func isRunning(err error) bool {
	p := (*wire.Problem)(nil)
	return errors.As(err, &p)
}

// leftWhenEnded waits until a worker has ended: it does so by itself when its verge dev was
// killed.
func leftWhenEnded(ctx context.Context, dir string) ([]leftover.Worker, error) {
	for {
		list, err := leftover.Find(ctx, leftover.Options{Dir: dir})
		if !isRunning(err) {
			return list, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// runDevWorker is a worker of verge dev in a network namespace of its own. It reads its settings
// from standard input, and ends when that ends. For each byte that follows it writes its state to
// standard output.
func runDevWorker(ctx context.Context, f daemonflags.DevWorkerFlags) error {
	unix.CloseOnExec(devHostNet) // instances must not have it
	s, err := newService(f.Process)
	if err != nil {
		return err
	}
	var w devWorker
	from := json.NewDecoder(f.Process.Stdin)
	if err := from.Decode(&w); err != nil {
		return fmt.Errorf("reading what this worker is, from verge dev: %w", err)
	}
	if err := joinDevNetwork(&w); err != nil {
		return fmt.Errorf("setting up the network of worker %s: %w", w.Name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &devWorkers{log: s.log, hide: w.Hide, apart: true, ended: cancel, public: inHostNetwork}
	ready := make(chan struct{})
	run, end := context.WithCancel(context.WithoutCancel(ctx))
	d.start(run, &w, func() { close(ready) })
	asked := make(chan struct{}, 1)
	// It ends with the process: nothing interrupts a read of the standard input.
	go func() {
		defer cancel()
		in := io.MultiReader(from.Buffered(), f.Process.Stdin)
		for b := make([]byte, 1); ; {
			if _, err := in.Read(b); err != nil {
				return
			}
			asked <- struct{}{}
		}
	}()
	d.serve(ctx, w.Name, asked, ready, f.Process.Stdout)
	timeout, done := context.WithTimeout(context.Background(), devStop)
	defer done()
	d.shutdown(timeout)
	end()
	d.all.Wait()
	return d.failure()
}

// serve says how the worker is as often as somebody asks.
func (d *devWorkers) serve(ctx context.Context, name string, asked, ready <-chan struct{}, to io.Writer) {
	tell := json.NewEncoder(to)
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
		}
		select {
		case <-ctx.Done():
			return
		case <-ready:
		}
		d.mu.Lock()
		e := d.engines[len(d.engines)-1]
		d.mu.Unlock()
		s := devState{Worker: name}
		if at, err := e.State(ctx, 0, 0); err == nil {
			s.Gateway = at.Info.GatewayAddr
			if at.Info.Network != nil {
				s.Network, s.Why = at.Info.Network.Mode, at.Info.Network.Why
			}
		}
		if tell.Encode(s) != nil {
			return // verge dev is gone
		}
	}
}

// joinDevNetwork sets up this process's network namespace.
func joinDevNetwork(w *devWorker) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	up, err := netlink.LinkByName(devUplink)
	if err != nil {
		return err
	}
	for _, l := range []netlink.Link{lo, up} {
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
	}
	if err := netlink.AddrAdd(up, &netlink.Addr{IPNet: ipNet(w.Addr)}); err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: up.Attrs().Index, Gw: w.Via.AsSlice()})
}

// inHostNetwork calls f in the network namespace of verge dev, which sockets that it makes belong
// to.
func inHostNetwork(f func() error) error {
	return onthread.Do(func() error {
		if err := unix.Setns(devHostNet, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering the network namespace of verge dev: %w", err)
		}
		return f()
	})
}
