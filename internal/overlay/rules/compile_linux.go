package rules

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"golang.org/x/sys/unix"
)

// Names of sets.
const (
	setLink6, setLink4     = "link6", "link4"
	setHair6, setHair4     = "hair6", "hair4"
	setKnown6, setKnown4   = "known6", "known4"
	setService6            = "service6"
	setService4            = "service4"
	setExport6, setExport4 = "export6", "export4"
	setServed6, setServed4 = "served6", "served4" // ports of services that have an endpoint
	setFrom6, setFrom4     = "from6", "from4"
	setApp4                = "app4"
)

// Reasons for which packets are refused; each is a counter.
const (
	Spoofed  = "spoofed"  // the source is not the sender's
	Isolated = "isolated" // another application's, and not exported
	Guarded  = "guarded"  // to the machine itself
	Outside  = "outside"  // opened from outside of the service network
	Foreign  = "foreign"  // from another worker, to what is not here
	Endless  = "endless"  // to a service without an endpoint
	dnsPort  = 53
)

var reasons = []string{Endless, Foreign, Guarded, Isolated, Outside, Spoofed}

// chain of a table; base is nil for a chain that others jump to.
type chain struct {
	name  string
	base  *base
	rules []rule
}

type base struct {
	kind nftables.ChainType
	hook *nftables.ChainHook
	prio *nftables.ChainPriority
	text string
}

// ruleset is a Model compiled. It grows with services alone, so that is what is kept
// apart, by service: one that did not change is the same in the next ruleset.
type ruleset struct {
	sets map[string]*set // without what services have in them
	// fixed chains depend on networks and devices alone. Applications have one more
	// each, by name.
	fixed []chain
	apps  map[string]chain
	// apps4 are the applications of addresses; two sets have an element for each (see app4), so
	// there are as many as instances.
	apps4 map[netip.Addr]uint32
	made  map[string]*made // by service
}

// made is what became of a service: for each family that it has, a chain and elements
// in two sets.
type made struct {
	of   Service
	name string // of the chains, without the family
	in   []inFamily
}

type inFamily struct {
	f     family
	chain chain
	known element
	jump  element
	// served are the ports that lead to an endpoint.
	served []element
}

// put passes on the elements of sets that a service has.
func (x *inFamily) put(put func(set string, e element)) {
	known, vmap, served := setKnown6, setService6, setServed6
	if x.f.size == 4 {
		known, vmap, served = setKnown4, setService4, setServed4
	}
	put(known, x.known)
	put(vmap, x.jump)
	for _, e := range x.served {
		put(served, e)
	}
}

func prio(p int32) *nftables.ChainPriority {
	return nftables.ChainPriorityRef(nftables.ChainPriority(p))
}

// Priorities around those of the connection tracking and the translation.
var (
	rawIn = &base{nftables.ChainTypeFilter, nftables.ChainHookPrerouting, prio(-300),
		"filter hook prerouting priority -300"}
	rawOut = &base{nftables.ChainTypeFilter, nftables.ChainHookOutput, prio(-300), "filter hook output priority -300"}
	natIn  = &base{nftables.ChainTypeNAT, nftables.ChainHookPrerouting, prio(-100),
		"nat hook prerouting priority -100"}
	natOut  = &base{nftables.ChainTypeNAT, nftables.ChainHookOutput, prio(-100), "nat hook output priority -100"}
	natPost = &base{nftables.ChainTypeNAT, nftables.ChainHookPostrouting, prio(100),
		"nat hook postrouting priority 100"}
	forward = &base{nftables.ChainTypeFilter, nftables.ChainHookForward, prio(0), "filter hook forward priority 0"}
	input   = &base{nftables.ChainTypeFilter, nftables.ChainHookInput, prio(0), "filter hook input priority 0"}
)

// compile makes the ruleset of a model; what is the same as in before, which may be
// nil, is taken from there.
func compile(m *Model, before *ruleset) (*ruleset, error) {
	rs := &ruleset{
		sets: sets(), apps: map[string]chain{},
		apps4: make(map[netip.Addr]uint32, len(m.Apps4)+len(m.Links)), made: make(map[string]*made, len(m.Services)),
	}
	rs.fixed = fixed(m.Space, m.Devices)
	rs.members(m)
	names := make(map[string]string, len(m.Services))
	addrs := make(map[netip.Addr]string, 2*len(m.Services))
	for i := range m.Services {
		s := &m.Services[i]
		var is *made
		if before != nil {
			is = before.made[s.Name]
		}
		if is == nil || !s.same(&is.of) {
			if err := s.check(); err != nil {
				return nil, err
			}
			is = s.compile()
		}
		if other, twice := names[is.name]; twice {
			return nil, fmt.Errorf("services %s and %s have the same chain", other, s.Name)
		}
		names[is.name] = s.Name
		for _, a := range []netip.Addr{s.Addr6, s.Addr4} {
			if !a.IsValid() {
				continue
			}
			if other, twice := addrs[a]; twice {
				return nil, fmt.Errorf("services %s and %s have the same address %s", other, s.Name, a)
			}
			addrs[a] = s.Name
		}
		rs.made[s.Name] = is
	}
	return rs, nil
}

// sets are those of a ruleset, empty.
func sets() map[string]*set {
	concat := nftables.MustConcatSetType
	all := []*set{
		{name: setLink6, text: "ifname . ipv6_addr", key: concat(nftables.TypeIFName, nftables.TypeIP6Addr),
			concat: true},
		{name: setLink4, text: "ifname . ipv4_addr", key: concat(nftables.TypeIFName, nftables.TypeIPAddr),
			concat: true},
		{name: setHair6, text: "ipv6_addr . ipv6_addr", key: concat(nftables.TypeIP6Addr, nftables.TypeIP6Addr),
			concat: true},
		{name: setHair4, text: "ipv4_addr . ipv4_addr", key: concat(nftables.TypeIPAddr, nftables.TypeIPAddr),
			concat: true},
		{name: setKnown6, text: "ipv6_addr", key: nftables.TypeIP6Addr},
		{name: setKnown4, text: "ipv4_addr", key: nftables.TypeIPAddr},
		{name: setExport6, text: "ipv6_addr . inet_proto . inet_service",
			key: concat(nftables.TypeIP6Addr, nftables.TypeInetProto, nftables.TypeInetService), concat: true},
		{name: setExport4, text: "ipv4_addr . inet_proto . inet_service",
			key: concat(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService), concat: true},
		{name: setServed6, text: "ipv6_addr . inet_proto . inet_service",
			key: concat(nftables.TypeIP6Addr, nftables.TypeInetProto, nftables.TypeInetService), concat: true},
		{name: setServed4, text: "ipv4_addr . inet_proto . inet_service",
			key: concat(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService), concat: true},
		{name: setFrom6, text: "ipv6_addr : verdict", key: nftables.TypeIP6Addr, val: &nftables.TypeVerdict},
		{name: setFrom4, text: "ipv4_addr : verdict", key: nftables.TypeIPAddr, val: &nftables.TypeVerdict},
		{name: setApp4, text: "ipv4_addr : app", key: nftables.TypeIPAddr, val: &nftables.TypeMark},
		{name: setService6, text: "ipv6_addr : verdict", key: nftables.TypeIP6Addr, val: &nftables.TypeVerdict},
		{name: setService4, text: "ipv4_addr : verdict", key: nftables.TypeIPAddr, val: &nftables.TypeVerdict},
	}
	out := make(map[string]*set, len(all))
	for _, s := range all {
		s.elements = map[string]element{}
		out[s.name] = s
	}
	return out
}

func (rs *ruleset) add(name, text string, e element) {
	e.text = text
	rs.sets[name].elements[text] = e
}

// members fills the sets with what is here.
func (rs *ruleset) members(m *Model) {
	apps := map[uint32]bool{}
	for _, l := range m.Links {
		apps[l.App] = true
		name := make([]byte, unix.IFNAMSIZ)
		copy(name, l.Device)
		for _, f := range []struct {
			a          netip.Addr
			link, hair string
		}{{l.Addr6, setLink6, setHair6}, {l.Addr4, setLink4, setHair4}} {
			if !f.a.IsValid() {
				continue
			}
			b := f.a.AsSlice()
			rs.add(f.link, fmt.Sprintf("%q . %s", l.Device, f.a), element{key: slices.Concat(name, b)})
			rs.add(f.hair, fmt.Sprintf("%s . %s", f.a, f.a), element{key: slices.Concat(b, b)})
		}
	}
	for a, app := range m.Apps4 {
		rs.apps4[a] = app
		apps[app] = true
	}
	for _, l := range m.Links { // they know it best
		if l.Addr4.IsValid() {
			rs.apps4[l.Addr4] = l.App
		}
	}
	for app := range apps {
		c := chain{name: appChain(app), rules: []rule{join(toApp(app), accept()), join(toApp4(app), accept())}}
		rs.apps[c.name] = c
		rs.add(setFrom6, fmt.Sprintf("%s : jump %s", appAddr(app), c.name),
			element{key: appAddr(app).AsSlice(), jump: c.name})
	}
	for _, t := range m.Exported {
		name, e := setExport6, portElement(t.Addr, t.Proto, t.Port)
		if t.Addr.Is4() {
			name = setExport4
		}
		rs.add(name, e.text, e)
	}
}

// portElement is that of a port in a set of addresses with ports.
func portElement(a netip.Addr, proto string, port uint16) element {
	number := byte(unix.IPPROTO_TCP)
	if proto == "udp" {
		number = unix.IPPROTO_UDP
	}
	return element{
		text: fmt.Sprintf("%s . %s . %d", a, proto, port),
		key:  slices.Concat(a.AsSlice(), []byte{number, 0, 0, 0, byte(port >> 8), byte(port), 0, 0}),
	}
}

// app4 are the elements of an address in the map that leads to the chain of its
// application, and in the one that says its application.
func app4(a netip.Addr, app uint32) (from, of element) {
	return element{key: a.AsSlice(), jump: appChain(app)}, element{key: a.AsSlice(), val: appKey(app)}
}

func appChain(app uint32) string { return "app-" + strconv.FormatUint(uint64(app), 10) }

func appKey(app uint32) []byte { return binaryutil.NativeEndian.PutUint32(app) }

func (s *Service) compile() *made {
	is := &made{of: *s, name: chainOf(s.Name)}
	is.of.Ports = slices.Clone(s.Ports)
	for i := range s.Ports {
		is.of.Ports[i].To6, is.of.Ports[i].To4 = slices.Clone(s.Ports[i].To6), slices.Clone(s.Ports[i].To4)
	}
	for _, x := range []struct {
		f    family
		addr netip.Addr
		to   func(*Port) []Backend
	}{
		{six, s.Addr6, func(p *Port) []Backend { return p.To6 }},
		{four, s.Addr4, func(p *Port) []Backend { return p.To4 }},
	} {
		if !x.addr.IsValid() {
			continue
		}
		c := chain{name: fmt.Sprintf("s%c-%s", x.f.digit, is.name)}
		var served []element
		for i := range s.Ports {
			p := &s.Ports[i]
			first := slices.IndexFunc(s.Ports, func(o Port) bool { return o.Proto == p.Proto && o.Port == p.Port })
			if list := x.to(p); len(list) > 0 && first == i { // no packet would reach a second
				c.rules = append(c.rules, x.f.choose(c.name, []part{l4(p.Proto), dport(p.Port)}, list, p.Rotate))
				served = append(served, portElement(x.addr, p.Proto, p.Port))
			}
		}
		is.in = append(is.in, inFamily{
			x.f, c,
			element{text: x.addr.String(), key: x.addr.AsSlice()},
			element{text: x.addr.String() + " : jump " + c.name, key: x.addr.AsSlice(), jump: c.name},
			served,
		})
	}
	return is
}

// fixed are the chains that do not depend on instances.
func fixed(sp Space, d Devices) []chain {
	v4 := sp.Worker4.IsValid()
	links := iif(d.Links)
	refuse := func(reason string) rule { return join(count(reason), drop()) }
	var out, in, post, fwd, sent, judge6, judge4, judge4far, peers, inp []rule

	// Every packet of the machine comes through here, so what most of them are comes
	// first. Who says what about itself: addresses of the service network come by
	// devices of the service network alone. A tunnel's peers WireGuard holds to theirs.
	raw := []rule{
		join(iifIs(d.Peers), accept()),
		join(links, goTo("link")),
		join(six.often("saddr", sp.Root), goTo("member")),
	}
	link := []rule{
		join(six.linked(setLink6), goTo("known6")),
		join(four.linked(setLink4), goTo("known4")),
		join(six.daddr(netip.MustParsePrefix("ff00::/8")), drop()), // reports to routers that are none
		refuse(Spoofed),
	}
	member := []rule{join(iifIs("lo"), accept()), join(iif(d.Own), accept()), refuse(Spoofed)}
	if v4 {
		raw = append(raw, join(four.saddr(sp.Worker4), goTo("member")))
	}
	// A packet to an unknown service goes to user space and comes back when the
	// service is known. It must not be tracked on its first way: the entry would say
	// that nothing is to be translated, and hold for the second.
	known6 := []rule{join(six.often("daddr", sp.Services), six.daddrIn(setKnown6, true), notrack())}
	out = append(out, known6...)
	known6 = append(known6, join(six.daddr(netip.MustParsePrefix("ff00::/8")), drop()))
	var known4 []rule
	if v4 {
		known4 = []rule{join(four.daddr(sp.Services4), four.daddrIn(setKnown4, true), notrack())}
		out = append(out, known4...)
	}

	in = []rule{join(six.toService(setService6)), join(four.toService(setService4))}

	post = append(post, join(translated(), six.pair(setHair6), six.snat(sp.Host6)))
	if v4 {
		post = append(post, join(translated(), four.pair(setHair4), four.snat(sp.Host4)))
	}
	post = append(post, join(notOif(d.Own), six.saddr(sp.Worker), six.notDaddr(sp.Root), masquerade()))
	if v4 {
		post = append(post, join(notOif(d.Own), four.saddr(sp.Worker4), four.notDaddr(sp.Pool), masquerade()))
	}

	fwd = append(fwd,
		join(assured(), accept()),
		join(oifIs(d.Services), notIif(d.Links), count(Outside), drop()),
		join(oifIs(d.Services), six.daddrIn(setKnown6, false), goTo("untranslated")),
		join(oifIs(d.Services), four.daddrIn(setKnown4, false), goTo("untranslated")),
		join(oifIs(d.Services), accept()),
		// Workers need not have the same MTU.
		join(oifIs(d.Peers), clamp()),
		join(iifIs(d.Peers), clamp()),
		join(iif(d.Own), established(), accept()),
		join(oif(d.Own), established(), accept()),
		join(links, goTo("sent")),
		join(iifIs(d.Services), six.saddr(sp.Services), accept()), // nobody is there, it says
	)
	if v4 {
		fwd = append(fwd, join(iifIs(d.Services), four.saddr(sp.Services4), accept()))
	}
	fwd = append(fwd,
		join(iifIs(d.Services), goTo("sent")), // written back
		join(iifIs(d.Peers), goTo("peers")),
		join(oif(d.Own), count(Outside), drop()),
	)
	sent = append(sent, join(six.daddr(sp.Root), goTo("judge6")))
	if v4 {
		sent = append(sent, join(four.daddr(sp.Pool), goTo("judge4")), join(four.daddr(sp.Services4), goTo("endless")))
	}
	sent = append(sent, join(accept())) // to the world outside

	judge6 = []rule{join(fromHost(), accept()), join(fromApp(setFrom6)), join(six.exported(setExport6), accept()),
		refuse(Isolated)}
	if v4 {
		judge4 = append(judge4, join(four.saddrIs(sp.Host4), accept()))
	}
	judge4 = append(judge4, join(fromApp4(setFrom4)), join(four.exported(setExport4), accept()), refuse(Isolated))

	peers = append(peers, join(six.daddr(sp.Worker), six.saddr(sp.Root), goTo("judge6")))
	if v4 {
		peers = append(peers, join(four.daddr(sp.Worker4), four.saddr(sp.Pool), goTo("judge4far")))
	}
	// Routes have the addresses of ready instances with ports; others are known to
	// their worker alone. It has judged what they send, as it does with IPv6 where it
	// could write any application into the source just so.
	judge4far = []rule{join(fromApp4(setFrom4)), join(four.exported(setExport4), accept()),
		join(fromKnown4(), count(Isolated), drop()), join(accept())}
	peers = append(peers, refuse(Foreign))

	// The worker's addresses in the service network are for the service network.
	host := []rule{join(iifIs("lo"), accept()), join(notIif(d.Own), count(Outside), drop())}
	inp = append(inp, join(six.often("daddr", sp.Worker), jump("host")))
	if v4 {
		inp = append(inp, join(four.daddr(sp.Worker4), jump("host")))
	}
	inp = append(inp,
		join(assured(), accept()), join(iifIs("lo"), accept()),
		join(notIif(d.Links), notIifIs(d.Peers), accept()), join(established(), accept()),
	)
	inp = append(inp, join(iifIs(d.Peers), fromHost(), accept()))
	for _, h := range []struct {
		f    family
		a    netip.Addr
		ping string
	}{{six, sp.Host6, "icmpv6"}, {four, sp.Host4, "icmp"}} {
		if !h.a.IsValid() {
			continue
		}
		for _, proto := range []string{"udp", "tcp"} {
			inp = append(inp, join(links, h.f.daddrIs(h.a), l4(proto), dport(dnsPort), accept()))
		}
		inp = append(inp, join(links, h.f.daddrIs(h.a), l4("tcp"), dport(ObjectsPort), accept()))
		inp = append(inp, join(links, h.f.daddrIs(h.a), l4(h.ping), accept()))
	}
	// A service whose endpoints have no address in the service network is reached
	// through the worker's router: translated by us, to a port of ours.
	inp = append(inp, join(links, translated(), accept()), refuse(Guarded))

	return []chain{
		{"known6", nil, known6},
		{"known4", nil, known4},
		{"link", nil, link},
		{"member", nil, member},
		{"host", nil, host},
		// While all rules are written anew, a packet may meet neither the former translation
		// nor the new one. Lost here, where nothing remembers it yet, it is sent again.
		{"untranslated", nil, []rule{join(six.exported(setServed6), drop()), join(four.exported(setServed4), drop()),
			join(goTo("endless"))}},
		{"endless", nil, []rule{join(count(Endless)), join(l4("tcp"), resetTCP()), join(reject())}},
		{"judge6", nil, judge6},
		{"judge4", nil, judge4},
		{"judge4far", nil, judge4far},
		{"sent", nil, sent},
		{"peers", nil, peers},
		{"raw", rawIn, raw},
		{"raw-out", rawOut, out},
		{"translate", natIn, in},
		{"translate-out", natOut, in},
		{"source", natPost, post},
		{"forward", forward, fwd},
		{"input", input, inp},
	}
}

// Text is a Model as people read it, in a form that is always the same for the same
// Model.
func Text(m *Model) (string, error) {
	rs, err := compile(m, nil)
	if err != nil {
		return "", err
	}
	for a, app := range rs.apps4 {
		from, of := app4(a, app)
		rs.add(setFrom4, fmt.Sprintf("%s : jump %s", a, from.jump), from)
		rs.add(setApp4, fmt.Sprintf("%s : %d", a, app), of)
	}
	chains := maps.Clone(rs.apps)
	for _, is := range rs.made {
		for i := range is.in {
			x := &is.in[i]
			x.put(func(set string, e element) { rs.sets[set].elements[e.text] = e })
			chains[x.chain.name] = x.chain
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rs.sets)) {
		s := rs.sets[name]
		fmt.Fprintf(&b, "set %s { %s }\n", name, s.text)
		for _, e := range slices.Sorted(maps.Keys(s.elements)) {
			fmt.Fprintf(&b, "\t%s\n", e)
		}
	}
	write := func(c *chain) {
		fmt.Fprintf(&b, "chain %s {", c.name)
		if c.base != nil {
			fmt.Fprintf(&b, " type %s", c.base.text)
		}
		b.WriteString(" }\n")
		for _, r := range c.rules {
			fmt.Fprintf(&b, "\t%s\n", r.text)
		}
	}
	for i := range rs.fixed {
		write(&rs.fixed[i])
	}
	for _, name := range slices.Sorted(maps.Keys(chains)) {
		c := chains[name]
		write(&c)
	}
	return b.String(), nil
}
