package overlay

import (
	"cmp"
	"context"
	"hash/fnv"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/overlay/addr"
	"github.com/verge-edge/verge/internal/overlay/forget"
	"github.com/verge-edge/verge/internal/overlay/names"
	"github.com/verge-edge/verge/internal/overlay/rules"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/wire"
)

// maxInterest bounds the services of other applications, and by other policies than
// their own, that rules are made for.
const maxInterest = 4096

// silentFor is how long there has to be no path to a worker that its cluster does not
// hear of either until connections to it are ended: a relay that takes over needs less.
const silentFor = 5 * time.Second

// nameWithin is how long the name of an instance may wait for the endpoints of its
// service: less than resolvers wait.
const nameWithin = 1500 * time.Millisecond

// scale makes weights of shares.
const scale = 1 << 16

// policies that a name or an address may choose.
var policies = []string{api.PolicyRoundRobin, api.PolicyRandom, api.PolicyClosest, api.PolicyLocal, api.PolicyProximity}

// policyOf is the policy of a service in names and addresses.
func policyOf(r *wire.Route) string { return cmp.Or(r.Requests.Policy, r.Policy) }

func defaultPolicy(name string) string { return cmp.Or(name, api.PolicyRoundRobin) }

// keyOf names a service by its own policy.
func keyOf(r *wire.Route) addr.Key {
	return addr.Key{App: r.App, Service: r.Service, Policy: defaultPolicy(policyOf(r))}
}

// applyLocked makes the ruleset what it should be.
func (n *Network) applyLocked() error {
	if n.space == nil || n.spawn == nil {
		return nil
	}
	version, services := n.looks.version, len(n.looks.want)
	m, through := n.modelLocked()
	n.lookLocked(n.looks.version != version || len(n.looks.want) != services)
	err := n.book.Save()
	if err == nil {
		err = n.table.Apply(m)
	}
	if err == nil { // when nothing new goes there any more
		n.partLocked(n.dropThroughLocked(through))
	}
	what := ""
	if err != nil {
		what = err.Error()
		n.log.Error("the ruleset of the service network could not be written", "error", err)
		n.Changed() // tries again
	}
	n.opts.Problem("ruleset of the service network", what)
	return err
}

// partLocked ends what leads to instances of other workers that left the routes. One
// whose worker was not heard of before is dead: its connections end. Of one that
// was, which drains or moves, only what has no end of its own does. One that stays in
// the routes, since nobody has taken its place, is dead if neither its cluster nor this
// worker has heard of its own for a while. All is looked at again after wait, or earlier;
// 0: not for that alone.
func (n *Network) partLocked(wait time.Duration) {
	now, silent := make(map[netip.Addr]bool, len(n.remote)), map[netip.Addr]bool{}
	var dead, left []netip.Addr
	for _, r := range n.routes {
		for i := range r.Endpoints {
			e := &r.Endpoints[i]
			if n.oursLocked(e) {
				continue
			}
			gone := e.Suspect && n.silentLocked(e, &wait)
			for _, a := range e.Addrs {
				now[a] = !e.Suspect
				if !gone {
					continue
				}
				if silent[a] = true; !n.silent[a] {
					dead = append(dead, a)
				}
			}
		}
	}
	n.silent = silent
	if wait > 0 {
		n.againLocked(wait)
	}
	for a, heard := range n.remote {
		if _, stays := now[a]; stays {
			continue
		}
		if heard {
			left = append(left, a)
		} else {
			dead = append(dead, a)
		}
	}
	n.remote = now
	n.forgetLocked(dead, forget.All)
	n.forgetLocked(left, forget.UDP)
}

// silentLocked says whether there has been no path to an endpoint's worker for
// silentFor. If it is too early to say, it may make wait shorter.
func (n *Network) silentLocked(e *wire.Endpoint, wait *time.Duration) bool {
	if n.paths == nil {
		return false
	}
	since, lost := n.paths.peers.Lost(e.Cluster, e.Worker)
	if !lost {
		return false
	}
	rest := silentFor - time.Since(since)
	if rest > 0 && (*wait == 0 || rest < *wait) {
		*wait = rest
	}
	return rest <= 0
}

// againLocked has everything looked at again after some time.
func (n *Network) againLocked(after time.Duration) {
	if n.again == nil {
		n.again = time.AfterFunc(after, n.Changed)
		return
	}
	n.again.Reset(after)
}

// forgetLocked ends what leads to addresses, beside everything else.
func (n *Network) forgetLocked(addrs []netip.Addr, what forget.What) {
	if len(addrs) == 0 || n.spawn == nil {
		return
	}
	spaces := map[netip.Addr]string{n.space.Host6: "", n.space.Host4: ""}
	for id, a := range n.attached {
		for _, x := range a.addrs() {
			spaces[x] = n.links.Path(id)
		}
	}
	n.spawn(func(context.Context) {
		err := forget.Endpoints(addrs, what, func(a netip.Addr) (string, bool) { p, ok := spaces[a]; return p, ok })
		if err != nil {
			n.log.Warn("connections to what is gone may hang", "error", err)
		}
	})
}

// modelLocked says what should be true, and which ports of the router it leads to.
func (n *Network) modelLocked() (*rules.Model, map[throughKey]bool) {
	s := n.space
	m := &rules.Model{
		Space: rules.Space{
			Root: s.Root, Worker: s.Worker, Services: s.Services, Host6: s.Host6,
			Pool: s.Pool, Worker4: s.Worker4, Services4: s.Services4, Host4: s.Host4,
		},
		Devices: rules.Devices{
			Own: n.links.Own(""), Links: n.links.Prefix(),
			Services: n.links.Own(servicesDevice), Peers: n.links.Own(peersDevice),
		},
		Apps4: make(map[netip.Addr]uint32, len(n.remote)),
	}
	apps := map[string]uint32{} // of which there are instances here
	for _, a := range n.attached {
		m.Links = append(m.Links, rules.Link{Device: a.device, App: a.place.App, Addr6: a.addr6, Addr4: a.addr4})
		apps[a.App] = a.place.App
	}
	n.served = make(map[addr.Key]rules.Service, len(n.served))
	n.looks.want = map[string][]Worker{}
	if n.opts.Distances != nil {
		n.looks.version = n.opts.Distances.Version()
	}
	inUse := map[throughKey]bool{}
	for _, r := range n.routes {
		if r.Unasked {
			continue // what is sent there is asked for first
		}
		app, here := apps[r.App]
		if r.AppNumber != 0 {
			app = r.AppNumber
		}
		if app == 0 {
			continue // from a cluster without a service network
		}
		if r.Export {
			m.Exported = append(m.Exported, n.exportedLocked(r)...)
		}
		wanted := map[string]bool{}
		if here {
			wanted[keyOf(r).Policy] = true
			for i := range r.Endpoints {
				for _, a := range r.Endpoints[i].Addrs {
					if a.Is4() {
						m.Apps4[a] = app
					}
				}
			}
		}
		for _, p := range policies {
			if n.interest[addr.Key{App: r.App, Service: r.Service, Policy: p}] {
				wanted[p] = true
			}
		}
		for policy := range wanted {
			k := addr.Key{App: r.App, Service: r.Service, Policy: policy}
			svc := n.serviceLocked(r, k, app, inUse)
			n.served[k] = svc
			m.Services = append(m.Services, svc)
		}
	}
	return m, inUse
}

// serviceLocked makes the service of a route by a policy.
func (n *Network) serviceLocked(r *wire.Route, k addr.Key, app uint32, inUse map[throughKey]bool) rules.Service {
	svc := rules.Service{Name: k.String(), Addr6: n.space.Service(app, k.Service, k.Policy)}
	if n.space.Services4.IsValid() {
		a, err := n.address4Locked(r, k)
		if err != nil {
			n.log.Warn("a service has no IPv4 address", "service", k.String(), "why", err)
		}
		svc.Addr4 = a
	}
	direct, others := n.endpointsLocked(r, k)
	for i := range r.Ports {
		p := rules.Port{Proto: protocol(&r.Ports[i]),
			Port: uint16(wire.NetworkPort(r.Ports, i))} //nolint:gosec // below 1<<16
		p.Rotate = k.Policy == api.PolicyRoundRobin || k == keyOf(r) && r.PolicyOf().Name == api.PolicyRoundRobin
		direct, others := direct, others
		if n.opts.Through != nil && r.ByRequest(&r.Ports[i]) && (r.Requests.Needed || k == keyOf(r)) {
			// The router looks at each request. Under the name of another policy too where
			// there are queues to pass; else that goes by connection.
			direct, others = nil, 1
		}
		for _, e := range direct {
			for _, a := range e.addrs {
				b := rules.Backend{To: netip.AddrPortFrom(a, p.Port), Weight: e.weight}
				if a.Is4() {
					p.To4 = append(p.To4, b)
				} else {
					p.To6 = append(p.To6, b)
				}
			}
		}
		if others > 0 && n.opts.Through != nil && p.Proto == "tcp" { // the router carries connections alone
			key := throughKey{r.App, r.Service, portName(&r.Ports[i])}
			inUse[key] = true
			t := n.throughLocked(key)
			if t.at6.IsValid() {
				p.To6 = append(p.To6, rules.Backend{To: t.at6, Weight: others})
			}
			if t.at4.IsValid() {
				p.To4 = append(p.To4, rules.Backend{To: t.at4, Weight: others})
			}
		}
		svc.Ports = append(svc.Ports, p)
	}
	return svc
}

// exportedLocked are the ports of the instances of a route.
func (n *Network) exportedLocked(r *wire.Route) (out []rules.Target) {
	for i := range r.Endpoints {
		e := &r.Endpoints[i]
		addrs := e.Addrs
		if a := n.attached[e.Instance]; a != nil && n.oursLocked(e) {
			addrs = a.addrs()
		}
		for _, a := range addrs {
			for p := range r.Ports {
				out = append(out, rules.Target{Addr: a, Proto: protocol(&r.Ports[p]),
					Port: uint16(wire.NetworkPort(r.Ports, p))}) //nolint:gosec // below 1<<16
			}
		}
	}
	return out
}

// oursLocked says whether an endpoint is on this worker.
func (n *Network) oursLocked(e *wire.Endpoint) bool {
	return e.Worker == n.opts.Worker && (n.opts.Cluster == "" || e.Cluster == n.opts.Cluster)
}

type endpoint struct {
	addrs  []netip.Addr
	weight uint32
}

// known is an endpoint and how it is reached at its own addresses, if it is.
type known struct {
	of    *wire.Endpoint
	addrs []netip.Addr
}

// endpointsLocked are those of a route that are reached at their own addresses, and
// the weight of all others together, which the router reaches.
func (n *Network) endpointsLocked(r *wire.Route, k addr.Key) (direct []endpoint, others uint32) {
	by := make(map[string]known, len(r.Endpoints))
	list := make([]route.Endpoint, 0, len(r.Endpoints))
	var unmet []int // of list: those to which there is no way now, not even the router's
	anyReady := false
	for i := range r.Endpoints {
		e := &r.Endpoints[i]
		id := e.Instance + "@" + e.Cluster + "/" + e.Worker
		ours := n.oursLocked(e)
		x := known{of: e}
		ready := true
		switch a := n.attached[e.Instance]; {
		case ours && a != nil:
			if x.addrs, ready = a.addrs(), n.opts.Ready(e.Instance); ready {
				a.trusted = time.Time{}
			}
			ready = ready || time.Now().Before(a.trusted)
		case ours:
			ready = false // it is not here any more, or not yet
		case len(e.Addrs) > 0 && (n.reachedLocked(e) || n.opts.Reached != nil && n.opts.Reached(e)):
			x.addrs = e.Addrs
		default:
			if ready = e.Address != ""; !ready && len(e.Addrs) > 0 {
				unmet = append(unmet, len(list))
			}
		}
		anyReady = anyReady || ready
		by[id] = x
		list = append(list, route.Endpoint{ID: id, Ready: ready, Suspect: e.Suspect, Local: ours,
			Ordinal: ordinal(e.Instance)})
	}
	if !anyReady && time.Now().Before(n.trusted) {
		// The paths of an earlier engine are being found again. Until then what is sent there is
		// lost, and sent again by who sent it: to be refused would be the end of it.
		for _, i := range unmet {
			x := by[list[i].ID]
			x.addrs = x.of.Addrs
			by[list[i].ID], list[i].Ready = x, true
		}
	}
	route.Weigh(list, func(i int) route.Capable {
		e := by[list[i].ID].of
		return route.Capable{Node: e.Cluster + "/" + e.Worker, Serves: e.Serves, CPU: float64(e.CPU)}
	})
	route.Group(list, func(i int) route.Try {
		e := by[list[i].ID].of
		return route.Try{Cluster: e.Cluster, New: e.Trial, Share: e.TrialShare.Of()}
	})
	policy := r.PolicyOf()
	if k != keyOf(r) {
		var err error
		if policy, err = api.NamedPolicy(k.Policy); err != nil {
			return nil, 0
		}
	}
	if policy.Validate() != nil {
		policy = api.Policy{}.Filled() // of a newer orchestrator: traffic must flow
	}
	seed := seedOf(n.opts.Cluster, n.opts.Worker, k.String())
	rule, err := route.New(policy, seed)
	if err != nil {
		return nil, 0
	}
	if route.Tries(list) {
		one := rule // each has a state of its own, and Weights needs none
		rule = route.NewSplit(func() route.Policy { return one })
	}
	view := route.NewView(seed, list)
	if n.opts.Distances != nil && route.NeedsDistances(policy, view) {
		n.wantDistancesLocked(k.String(), r)
		n.distanceLocked(&view, by)
	}
	for i, w := range rule.Weights(view) {
		weight := uint32(math.Round(w * scale))
		if weight == 0 {
			continue
		}
		if x := by[view.Endpoints[i].ID]; len(x.addrs) > 0 {
			direct = append(direct, endpoint{x.addrs, weight})
		} else {
			others += weight
		}
	}
	// Equal ones rotate as such, whatever was rounded.
	if len(direct) > 0 && others == 0 && slices.IndexFunc(direct,
		func(e endpoint) bool { return diff(e.weight, direct[0].weight) > 1 }) < 0 {
		for i := range direct {
			direct[i].weight = 1
		}
	}
	return direct, others
}

func diff(a, b uint32) uint32 { return max(a, b) - min(a, b) }

func seedOf(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // a hash never fails
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

// ordinal of an instance, from its name.
func ordinal(id wire.InstanceID) int {
	i, err := strconv.Atoi(id[strings.LastIndexByte(id, '.')+1:])
	if err != nil {
		return -1
	}
	return i
}

// wantLocked registers the interest in a service by a policy.
func (n *Network) wantLocked(k addr.Key) {
	if _, served := n.served[k]; served || n.interest[k] {
		return
	}
	if len(n.interest) >= maxInterest {
		for old := range n.interest { // any: who still needs it asks again
			delete(n.interest, old)
			break
		}
	}
	n.interest[k] = true
}

// dropInterestLocked forgets the interest in a service by whatever policy: nobody has
// used it for a while.
func (n *Network) dropInterestLocked(r *wire.Route) {
	for _, p := range policies {
		delete(n.interest, addr.Key{App: r.App, Service: r.Service, Policy: p})
	}
}

// InUse are those of some services, by key, to which connections are tracked. Where
// that cannot be found out all of them are.
func (n *Network) InUse(keys []string) map[string]bool {
	of := map[netip.Addr]string{}
	n.mu.Lock()
	for _, key := range keys {
		r := n.routes[key]
		if r == nil || n.space == nil {
			continue
		}
		for i := range r.Endpoints {
			for _, a := range r.Endpoints[i].Addrs {
				of[a] = key
			}
		}
	}
	for k, svc := range n.served {
		for _, a := range []netip.Addr{svc.Addr6, svc.Addr4} {
			if key := k.App + "." + k.Service; a.IsValid() && slices.Contains(keys, key) {
				of[a] = key
			}
		}
	}
	n.mu.Unlock()
	out := map[string]bool{}
	err := forget.Tracked(func(to netip.Addr) {
		if key, ok := of[to]; ok {
			out[key] = true
		}
	})
	if err != nil {
		n.log.Warn("which connections are open is not known", "error", err)
		for _, key := range keys {
			out[key] = true
		}
	}
	return out
}

// find implements names.Options.Find.
func (n *Network) find(q names.Name) names.Answer {
	// The name of an instance needs the endpoints, that of a service does not.
	if key := q.App + "." + q.Service; q.Instance >= 0 && n.unasked(key) {
		ctx, cancel := context.WithTimeout(context.Background(), nameWithin)
		defer cancel()
		if n.opts.Await(ctx, key) != nil {
			return names.Answer{Unknown: true}
		}
	}
	return n.answer(q)
}

// unasked says whether there is a service whose endpoints are not here.
func (n *Network) unasked(key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.routes[key]
	return r != nil && r.Unasked
}

func (n *Network) answer(q names.Name) names.Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.routes[q.App+"."+q.Service]
	if n.space == nil || r == nil {
		return names.Answer{}
	}
	if ns := cmp.Or(r.Namespace, api.DefaultNamespace); q.AppNamespace != ns || q.ServiceNamespace != ns {
		return names.Answer{}
	}
	n.opts.Use(r.Key())
	out := names.Answer{Found: true}
	for i := range r.Ports {
		out.Ports = append(out.Ports,
			names.Port{Name: portName(&r.Ports[i]), Proto: protocol(&r.Ports[i]),
				Number: uint16(wire.NetworkPort(r.Ports, i))}) //nolint:gosec // below 1<<16
	}
	if q.Instance >= 0 {
		for i := range r.Endpoints {
			e := &r.Endpoints[i]
			if ordinal(e.Instance) != q.Instance {
				continue
			}
			if a := n.attached[e.Instance]; a != nil {
				out.Addrs = a.addrs()
			} else {
				out.Addrs = e.Addrs
			}
			return out
		}
		return names.Answer{}
	}
	k := keyOf(r)
	if q.Policy != "" {
		if !slices.Contains(policies, q.Policy) && q.Policy != k.Policy {
			return names.Answer{}
		}
		k.Policy = q.Policy
	}
	app := n.appLocked(r)
	if app == 0 {
		return names.Answer{}
	}
	n.wantLocked(k)
	if _, served := n.served[k]; !served && !r.Unasked {
		n.Changed() // there before the first packet, most times
	}
	out.Addrs = append(out.Addrs, n.space.Service(app, k.Service, k.Policy))
	if n.space.Services4.IsValid() {
		if a, err := n.address4Locked(r, k); err == nil {
			out.Addrs = append(out.Addrs, a)
		}
	}
	return out
}

func (n *Network) appLocked(r *wire.Route) uint32 {
	if r.AppNumber != 0 {
		return r.AppNumber
	}
	for _, a := range n.attached {
		if a.App == r.App {
			return a.place.App
		}
	}
	return 0
}

// known says whether a service address is in use, and makes its rules if the service exists and
// they were missing. later: a lookup is under way, and its answer is waited for.
func (n *Network) known(to netip.Addr) (there bool, later func(context.Context) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k, ok := n.serviceAtLocked(to)
	if !ok {
		return false, nil
	}
	key := k.App + "." + k.Service
	n.opts.Use(key)
	if r := n.routes[key]; r != nil && r.Unasked {
		n.wantLocked(k)
		return false, func(ctx context.Context) bool {
			if n.opts.Await(ctx, key) != nil || n.unasked(key) {
				return false
			}
			there, _ := n.known(to)
			return there
		}
	}
	if _, served := n.served[k]; !served {
		n.wantLocked(k)
		if n.applyLocked() != nil {
			return false, nil
		}
	}
	return slices.ContainsFunc(n.served[k].Ports, func(p rules.Port) bool {
		return to.Is4() && len(p.To4) > 0 || to.Is6() && len(p.To6) > 0
	}), nil
}

func (n *Network) serviceAtLocked(to netip.Addr) (addr.Key, bool) {
	if to.Is4() {
		return n.book.At(to)
	}
	for _, r := range n.routes {
		app := n.appLocked(r)
		if app == 0 {
			continue
		}
		own := keyOf(r)
		for _, p := range append([]string{own.Policy}, policies...) {
			if n.space.Service(app, r.Service, p) == to {
				return addr.Key{App: r.App, Service: r.Service, Policy: p}, true
			}
		}
	}
	return addr.Key{}, false
}
