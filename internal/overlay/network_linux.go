package overlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/hostnet"
	"github.com/verge-edge/verge/internal/hostnet/claim"
	"github.com/verge-edge/verge/internal/overlay/addr"
	"github.com/verge-edge/verge/internal/overlay/first"
	"github.com/verge-edge/verge/internal/overlay/forget"
	"github.com/verge-edge/verge/internal/overlay/link"
	"github.com/verge-edge/verge/internal/overlay/names"
	"github.com/verge-edge/verge/internal/overlay/rules"
	"github.com/verge-edge/verge/internal/overlay/wg"
	"github.com/verge-edge/verge/internal/wire"
)

// Files and directories below Options.Dir.
const (
	spacesDir = "netns"
	bookFile  = "services.json"
)

// Letters of the worker's own devices.
const (
	servicesDevice = "s"
	peersDevice    = "w"
)

const dnsPort = 53

// trustKept is how long instances that an earlier engine had attached are trusted to be as
// routes say: without that all would refuse connections until they have been probed again.
// So are those of workers that nobody reaches but by a path, until it is found. It is longer
// than an engine takes to find them.
const trustKept = 10 * time.Second

// retryAfter is the pause after the ruleset could not be written.
const retryAfter = 2 * time.Second

// Network of a worker. Its methods may be called by several goroutines.
type Network struct {
	opts  Options
	log   *slog.Logger
	claim *claim.Claim // two in a network namespace would each drop what the other sends
	links *link.Links
	table *rules.Table
	names *names.Server
	tun   *first.Device

	change  chan struct{} // holds one: the ruleset may have to change
	wg      sync.WaitGroup
	closing sync.Once

	// doors serve names and objects to instances. They are open until Close, also while another
	// process takes the network over.
	doors     sync.WaitGroup
	shutDoors context.CancelFunc
	open      context.Context // until then

	mu     sync.Mutex // guards below; Ready and Reached are called with it
	spawn  func(func(context.Context))
	cancel context.CancelFunc
	closed bool
	leased
	reads    bool                    // first packets to services are read
	asked    map[netip.AddrPort]bool // own addresses that are listened at, see doors
	book     *addr.Book
	attached map[wire.InstanceID]*attached
	routes   map[string]*wire.Route // by application and service
	interest map[addr.Key]bool
	served   map[addr.Key]rules.Service // what the ruleset has, by service and policy
	through  map[throughKey]*throughPort
	remotes
	again *time.Timer // see againLocked
	paths *paths      // nil: none
}

// leased is what comes with the lease of the worker.
type leased struct {
	given    *wire.Network // the last one that Set had
	space    *addr.Space   // nil without a lease
	settled  bool          // the machine is set up for the space
	cleared  bool          // Clear has removed what there was, and nobody has settled since
	numbers  *addr.Numbers
	numbers4 *addr.Numbers
}

// remotes are the instances of other workers.
type remotes struct {
	// remote are their addresses in routes, and whether those workers have been heard.
	remote map[netip.Addr]bool
	silent map[netip.Addr]bool // of them, those whose connections were ended
	// trusted until then: there is a way to them, as there was for an earlier engine, though
	// this one has not found it.
	trusted time.Time
	looks   looking
}

type attached struct {
	Instance
	place        Place
	device       string
	addr6, addr4 netip.Addr
	// trusted until then: it takes connections as it did for an earlier engine, though this
	// one has not found it ready yet.
	trusted time.Time
}

func (a *attached) addrs() []netip.Addr {
	if a.addr4.IsValid() {
		return []netip.Addr{a.addr6, a.addr4}
	}
	return []netip.Addr{a.addr6}
}

// Open finds out whether the machine can have a service network, and prepares it.
// An error says what is missing, and nothing is left.
func Open(o Options) (_ *Network, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Problem == nil {
		o.Problem = func(string, string) {}
	}
	if o.Use == nil {
		o.Use = func(string) {}
	}
	if o.Await == nil {
		o.Await = func(context.Context, string) error { return nil }
	}
	mark := wire.Mark(o.Dir)[:5]
	n := &Network{
		opts: o, log: o.Log, change: make(chan struct{}, 1),
		attached: map[wire.InstanceID]*attached{}, routes: map[string]*wire.Route{}, interest: map[addr.Key]bool{},
		served: map[addr.Key]rules.Service{}, through: map[throughKey]*throughPort{},
		asked: map[netip.AddrPort]bool{}, leased: leased{numbers: addr.NewNumbers(1, addr.MaxInstance)},
	}
	defer func() {
		if err != nil {
			n.release()
		}
	}()
	if err := hostnet.Rights(); err != nil {
		return nil, err // before anything is taken from who has them
	}
	if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
		return nil, errors.New("IPv6 is switched off in this machine's kernel (ipv6.disable=1)")
	}
	who := fmt.Sprintf("worker %s/%s, in %s", o.Cluster, o.Worker, o.Dir)
	if n.claim, err = claim.Take(who); err != nil {
		return nil, err
	}
	if n.links, err = link.Open(link.Options{Dir: filepath.Join(o.Dir, spacesDir), Mark: mark, MTU: o.MTU,
		Boot: o.Boot}); err != nil {
		return nil, err
	}
	if o.MTU == 0 && o.Paths != nil && o.Paths.MTU == 0 {
		if mtu, err := n.links.TunnelMTU(wg.Overhead, wg.DefaultMTU); err == nil {
			n.links.SetMTU(mtu) // see newPathsLocked
		}
	}
	if n.table, err = rules.Open(mark); err != nil {
		return nil, err
	}
	if err := n.strangers(); err != nil {
		return nil, err
	}
	had, err := n.links.Label(n.links.Own(servicesDevice))
	if err != nil {
		return nil, err
	}
	if had == "" { // this machine has not carried it for this worker since it was started
		if err := n.try(mark); err != nil {
			return nil, err
		}
	} else {
		n.trusted = time.Now().Add(trustKept)
	}
	if n.tun, err = first.Open(n.links.Own(servicesDevice)); err != nil {
		return nil, err
	}
	if err := n.links.SetLabel(n.links.Own(servicesDevice), who); err != nil {
		return nil, err
	}
	n.names = names.New(names.Options{Find: n.find, Upstream: o.Resolvers, Log: o.Log})
	return n, nil
}

// release lets go of what Open took; what is in the kernel stays.
func (n *Network) release() {
	if n.tun != nil {
		_ = n.tun.Close() // it may be closed
	}
	if n.table != nil {
		_ = n.table.Close() // nothing is written at this point
	}
	if n.links != nil {
		n.links.Close()
	}
	if n.claim != nil {
		_ = n.claim.Close() // it ends with the process
	}
}

// Start lets the network work, until ctx is done or Close.
func (n *Network) Start(ctx context.Context) {
	open, shut := context.WithCancel(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancel(ctx)
	n.mu.Lock()
	n.cancel = cancel
	n.open, n.shutDoors = open, shut
	n.spawn = func(f func(context.Context)) { n.wg.Go(func() { f(ctx) }) }
	n.mu.Unlock()
	n.wg.Go(func() { n.keep(ctx) })
	n.wg.Go(func() {
		if err := n.table.Watch(ctx, n.tampered, n.opts.Others); err != nil {
			n.log.Warn("changes of the ruleset by others are not noticed", "error", err)
		}
	})
}

// tampered is called when another program has changed our ruleset.
func (n *Network) tampered() {
	n.log.Warn("somebody changed the ruleset of the service network: it is written anew")
	n.table.Forget()
	n.Changed()
}

// Changed says that answers of Ready or Reached may be others now.
func (n *Network) Changed() {
	select {
	case n.change <- struct{}{}:
	default: // one is waiting already
	}
}

// keep brings the ruleset up to date after changes.
func (n *Network) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.change:
		}
		n.mu.Lock()
		var err error
		if !n.cleared { // what is heard of late must not bring the ruleset back
			err = n.applyLocked()
		}
		n.mu.Unlock()
		if err == nil {
			continue
		}
		t := time.NewTimer(retryAfter)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
			n.Changed()
		}
	}
}

// Close ends what Start began. Instances stay attached, and their connections open.
func (n *Network) Close() {
	n.Yield(false)
	n.mu.Lock()
	defer n.mu.Unlock()
	for k := range n.through {
		n.closeThroughLocked(k)
	}
}

// Yield closes everything except the ports of the router, which stay open until Close: another
// process takes the network over and opens its own. With doors, the ports for names and objects
// stay open too: the other process gets them from this one.
func (n *Network) Yield(doors bool) {
	n.closing.Do(n.yield)
	if doors {
		return
	}
	n.mu.Lock()
	shut := n.shutDoors
	n.mu.Unlock()
	if shut != nil {
		shut()
	}
	n.doors.Wait()
}

func (n *Network) yield() {
	n.mu.Lock()
	if n.cancel != nil {
		n.cancel()
	}
	n.spawn, n.closed = nil, true
	for _, t := range []*time.Timer{n.looks.timer, n.again} {
		if t != nil {
			t.Stop()
		}
	}
	n.mu.Unlock()
	_ = n.tun.Close() // wakes its reader
	n.wg.Wait()
	if n.paths != nil {
		n.paths.close(false)
	}
	n.release()
}

// Clear removes everything that was created in the kernel. No instance may be attached; it is
// called before Close.
func (n *Network) Clear() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.settled, n.cleared = false, true
	if n.paths != nil {
		n.paths.close(true)
	}
	err := errors.Join(n.table.Remove(), n.links.Clear())
	others, oerr := hostnet.Forwarders(n.table.Name())
	return errors.Join(err, oerr, n.links.Restore(others || oerr != nil))
}

// Set tells the network its lease and the routes.
func (n *Network) Set(w *wire.Network, routes []wire.Route) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w != nil {
		n.given = w
	}
	if w != nil && n.space == nil {
		if err := n.leaseLocked(w); err != nil {
			if !n.opts.Whole { // else whoever asked for all of it goes without
				n.opts.Problem("service network", err.Error())
			}
			return err
		}
	}
	before := n.routes
	n.routes = make(map[string]*wire.Route, len(routes))
	for i := range routes {
		key := routes[i].Key()
		n.routes[key] = &routes[i]
		if old := before[key]; routes[i].Unasked && old != nil && !old.Unasked {
			n.dropInterestLocked(&routes[i])
		}
	}
	if n.spawn == nil || !n.settled {
		return nil // Settle does it
	}
	n.tellPathsLocked()
	return n.applyLocked()
}

// leaseLocked takes the lease, which is for good.
func (n *Network) leaseLocked(w *wire.Network) error {
	var l wire.Lease
	if err := json.Unmarshal(w.Lease.Body, &l); err != nil {
		return fmt.Errorf("lease of the service network: %w", err)
	}
	if err := wire.CheckVersion("lease", l.V); err != nil {
		return err
	}
	s, err := addr.Of(&l)
	if err != nil {
		return err
	}
	nets, err := n.links.Networks()
	if err != nil {
		return err
	}
	host := make([]addr.HostNetwork, len(nets))
	for i, x := range nets {
		host[i] = addr.HostNetwork(x)
	}
	no4, no6 := s.Clash(host)
	if no6 != nil {
		return no6
	}
	if n.opts.Whole && no4 == nil && !s.Worker4.IsValid() {
		no4 = fmt.Errorf("the IPv4 addresses of instances, %s, are used up", s.Pool)
	}
	if n.opts.Whole && no4 != nil {
		return no4
	}
	what := ""
	if no4 != nil {
		s = s.WithoutIPv4()
		what = no4.Error() + "; until then instances have IPv6 only"
	}
	// With a subject of its own, since the state of the whole network is replaced when it is set
	// up.
	n.opts.Problem("IPv4 in the service network", what)
	book, err := addr.OpenBook(filepath.Join(n.opts.Dir, bookFile), s.Services4)
	if newer := (*statefile.NewerError)(nil); errors.As(err, &newer) {
		return err // what runs has these addresses, and they would be given again
	}
	if err != nil {
		n.log.Error("addresses of services may change", "why", err)
	}
	n.space, n.book = &s, book
	n.numbers4 = addr.NewNumbers(addr.First4, s.Last4())
	return nil
}

// Keep records an instance that an earlier engine attached, before Settle. It returns false if
// its place does not belong to this network.
func (n *Network) Keep(i Instance) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.space == nil || i.Had.Number == 0 || !n.numbers.Keep(i.ID, i.Had.Number) {
		return false
	}
	if i.Had.Number4 != 0 && !n.numbers4.Keep(i.ID, i.Had.Number4) {
		i.Had.Number4 = 0
	}
	n.admitLocked(i, i.Had).trusted = time.Now().Add(trustKept)
	return true
}

func (n *Network) admitLocked(i Instance, p Place) *attached {
	a := &attached{Instance: i, place: p, device: n.links.Device(p.Number), addr6: n.space.Instance(p.App, p.Number)}
	if p.Number4 != 0 {
		a.addr4 = n.space.Instance4(p.Number4)
	}
	n.attached[i.ID] = a
	return a
}

// Settle sets the machine up, once all that an earlier engine attached has been
// named by Keep, and removes what it left besides. Without a lease it does nothing;
// it may be called again.
func (n *Network) Settle() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.settleLocked()
}

func (n *Network) settleLocked() error {
	if n.space == nil || n.settled || n.spawn == nil {
		return nil
	}
	n.cleared = false
	keep := make(map[string]uint32, len(n.attached))
	for id, a := range n.attached {
		keep[id] = a.place.Number
	}
	if err := n.links.Sweep(keep); err != nil {
		return err
	}
	s := n.space
	device := n.links.Own(servicesDevice)
	if err := n.links.Host(device, []netip.Addr{s.Host6, s.Host4},
		[]netip.Prefix{s.Services, s.Services4}); err != nil {
		return err
	}
	if err := n.links.Forward(s.Worker4.IsValid()); err != nil {
		return err
	}
	if err := n.applyLocked(); err != nil {
		return err
	}
	if len(keep) > 0 || time.Now().Before(n.trusted) {
		n.spawn(func(ctx context.Context) {
			trusted := time.NewTimer(trustKept)
			defer trusted.Stop()
			select {
			case <-ctx.Done():
			case <-trusted.C:
				n.Changed()
			}
		})
	}
	if !n.reads {
		n.reads = true
		// What is for other workers comes here while there is no tunnel to them.
		n.tun.Lost = func(to netip.Addr) bool { return !s.Services.Contains(to) && !s.Services4.Contains(to) }
		n.spawn(func(ctx context.Context) {
			if err := n.tun.Run(ctx, n.known); err != nil {
				n.log.Error("first packets to services are lost", "error", err)
			}
		})
	}
	for _, a := range []netip.Addr{s.Host6, s.Host4} {
		if !a.IsValid() {
			continue
		}
		if err := n.doorLocked(netip.AddrPortFrom(a, dnsPort), n.offerNames); err != nil {
			return err
		}
		if n.opts.Objects == nil {
			continue
		}
		if err := n.doorLocked(netip.AddrPortFrom(a, ObjectsPort), n.offerObjects); err != nil {
			return err
		}
	}
	n.settled = true
	n.openPathsLocked()
	n.log.Info("service network works", "prefix", s.Worker, "ipv4", s.Worker4)
	return nil
}

// doorLocked opens a door by offer, unless an earlier try to set the machine up has: one
// that came no further has left it open, and it would be in its own way for good.
func (n *Network) doorLocked(at netip.AddrPort, offer func(netip.AddrPort) error) error {
	if n.asked[at] {
		return nil
	}
	if err := offer(at); err != nil {
		return err
	}
	n.asked[at] = true
	return nil
}

// offerNames answers questions for names at an own address of the worker, for as long as
// the network is open.
func (n *Network) offerNames(at netip.AddrPort) error {
	l, err := names.Listen(context.Background(), n.opener("names"), at)
	if err != nil {
		return err
	}
	open := n.open
	n.doors.Go(func() { n.names.Serve(open, l) })
	return nil
}

// offerObjects opens the way to objects at an own address of the worker, as offerNames does.
func (n *Network) offerObjects(at netip.AddrPort) error {
	ln, err := n.opener("objects").Listen(context.Background(), "tcp", at.String())
	if err != nil {
		return fmt.Errorf("listen for those who ask for objects: %w", err)
	}
	open := n.open
	n.doors.Go(func() {
		<-open.Done()
		_ = ln.Close() // nothing is written to it
	})
	n.opts.Objects(ln)
	return nil
}

// opener opens the sockets of a name.
func (n *Network) opener(name string) names.Opener {
	if n.opts.Listeners == nil {
		return &net.ListenConfig{}
	}
	return named{n.opts.Listeners, name}
}

// Attach gives an instance its place, or finds it there.
func (n *Network) Attach(i Instance) (Attachment, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.space == nil || i.AppNumber == 0 || n.closed {
		return Attachment{}, ErrNoLease
	}
	if i.AppNumber > addr.MaxApp {
		return Attachment{}, fmt.Errorf("application number %d has no room in an address", i.AppNumber)
	}
	if err := n.settleLocked(); err != nil {
		return Attachment{}, fmt.Errorf("set up the service network: %w", err)
	}
	a := n.attached[i.ID]
	if a != nil && a.place.App != i.AppNumber { // another application of the same name
		if err := n.detachLocked(i.ID); err != nil {
			return Attachment{}, err
		}
		a = nil
	}
	fresh := a == nil
	if fresh {
		p := Place{App: i.AppNumber}
		var err error
		if p.Number, err = n.numbers.Take(i.ID); err != nil {
			return Attachment{}, fmt.Errorf("numbers of instances: %w", err)
		}
		if n.space.Worker4.IsValid() {
			// Without one it has IPv6, which is enough.
			if p.Number4, err = n.numbers4.Take(i.ID); err != nil {
				n.opts.Problem("addresses of instances",
					fmt.Sprintf("IPv4 of instances, %s: %v; further ones have IPv6 only", n.space.Worker4, err))
			}
		}
		a = n.admitLocked(i, p)
	}
	a.Instance = i
	k, err := n.links.Make(link.Spec{ID: i.ID, Number: a.place.Number, Addr6: a.addr6, Addr4: a.addr4, PID: i.PID})
	if err == nil && (!fresh || i.In > 0 || i.Out > 0) { // an earlier revision may have had bounds
		err = n.links.Shape(i.ID, a.place.Number, i.In, i.Out)
	}
	if err == nil && fresh {
		err = n.applyLocked()
	}
	if err != nil {
		return Attachment{}, err
	}
	servers := []netip.Addr{n.space.Host6}
	if n.space.Host4.IsValid() {
		servers = append(servers, n.space.Host4)
	}
	host := n.space.Host6
	if a.addr4.IsValid() && n.space.Host4.IsValid() {
		host = n.space.Host4 // which every program can write
	}
	return Attachment{Place: a.place, NetNS: k.NetNS, Addrs: a.addrs(), Host: host,
		Resolver: names.Resolver(servers, i.App, i.Namespace)}, nil
}

// Detach ends the part of an instance; one that has none, nothing.
func (n *Network) Detach(id wire.InstanceID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.attached[id] == nil {
		return nil
	}
	if err := n.detachLocked(id); err != nil {
		return err
	}
	return n.applyLocked()
}

func (n *Network) detachLocked(id wire.InstanceID) error {
	a := n.attached[id]
	if err := n.links.Remove(id, a.place.Number); err != nil {
		return err
	}
	n.forgetLocked(a.addrs(), forget.All)
	delete(n.attached, id)
	n.numbers.Release(id)
	if n.numbers4 != nil {
		n.numbers4.Release(id)
	}
	return nil
}

// ServiceAddrs are the addresses (host:port) of a service for instances of an application, by the
// names of its ports.
func (n *Network) ServiceAddrs(app, namespace, service string, ports []api.Port) (map[string]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.space == nil {
		return nil, ErrNoLease
	}
	host := service + "." + names.Search(app, namespace)
	if n.space.Services4.IsValid() {
		r := n.routes[app+"."+service]
		if r == nil {
			r = &wire.Route{App: app, Service: service}
		}
		a, err := n.address4Locked(r, keyOf(r))
		if err == nil {
			err = n.book.Save()
		}
		if err != nil {
			return nil, err
		}
		host = a.String()
	}
	out := make(map[string]string, len(ports))
	for i := range ports {
		out[portName(&ports[i])] = fmt.Sprintf("%s:%d", host, wire.NetworkPort(ports, i))
	}
	return out, nil
}

func (n *Network) address4Locked(r *wire.Route, k addr.Key) (netip.Addr, error) {
	inUse := func(k addr.Key) bool { _, ok := n.served[k]; return ok }
	if k != keyOf(r) {
		return n.book.Take(k, netip.Addr{}, inUse)
	}
	what := ""
	a, err := n.book.Take(k, r.ServiceIP, inUse)
	if err != nil && r.ServiceIP.IsValid() {
		what = err.Error()
		a, err = n.book.Take(k, netip.Addr{}, inUse)
	}
	n.opts.Problem("address of "+r.Key(), what)
	return a, err
}

// Stats are the figures at this moment.
func (n *Network) Stats() (Stats, error) {
	dropped, err := n.table.Counts()
	if err != nil {
		return Stats{}, err
	}
	st := Stats{
		Dropped: dropped, First: n.tun.Known.Load(), Nobody: n.tun.Nobody.Load(), Peers: map[string]int{},
		Names: Names{Asked: n.names.Asked.Load(), Unanswered: n.names.Refused.Load(), Failed: n.names.Failed.Load(),
			Answers: n.names.Answers()},
	}
	n.mu.Lock()
	st.Instances, st.Services = len(n.attached), len(n.served)
	p := n.paths
	n.mu.Unlock()
	if p != nil {
		for _, other := range p.peers.Status().Peers {
			st.Peers[other.Path]++
		}
	}
	return st, nil
}

// Entries are the addresses at which the machine and its instances reach services, by
// their own policies: the IPv4 one where there is one.
func (n *Network) Entries() []Entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []Entry
	for _, r := range n.routes {
		s, ok := n.served[keyOf(r)]
		if !ok {
			continue // nothing here has asked for it
		}
		a := s.Addr4
		if !a.IsValid() {
			a = s.Addr6
		}
		for i := range r.Ports {
			at := netip.AddrPortFrom(a, uint16(wire.NetworkPort(r.Ports, i))) //nolint:gosec // below 1<<16
			out = append(out, Entry{App: r.App, Service: r.Service, Port: portName(&r.Ports[i]), Addr: at.String()})
		}
	}
	return out
}

// Attached are the addresses of all attached instances.
func (n *Network) Attached() map[wire.InstanceID][]netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make(map[wire.InstanceID][]netip.Addr, len(n.attached))
	for id, a := range maps.All(n.attached) {
		out[id] = a.addrs()
	}
	return out
}
