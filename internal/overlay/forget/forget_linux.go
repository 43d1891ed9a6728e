package forget

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/onthread"
)

// What is to be ended of an endpoint.
type What int

// Connections of UDP have no end of their own; those of TCP are to be ended only
// where the endpoint is dead, and not where it drains.
const (
	UDP What = iota
	All
)

// flow is a connection as its client sees it.
type flow struct{ from, to netip.AddrPort }

// Endpoints ends what leads to some addresses: the connection tracking's entries,
// and with All the sockets of clients. space is the path of the network namespace
// that has a client's address, "" the machine's; false where it is not here.
func Endpoints(dead []netip.Addr, what What, space func(client netip.Addr) (path string, ok bool)) error {
	if len(dead) == 0 {
		return nil
	}
	h, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open the connection tracking: %w", err)
	}
	defer h.Close()
	m := &match{dead: map[netip.Addr]bool{}, what: what}
	families := map[netlink.InetFamily]bool{}
	for _, a := range dead {
		m.dead[a] = true
		families[familyOf(a)] = true
	}
	var errs []error
	for f := range families {
		if _, err := h.ConntrackDeleteFilters(netlink.ConntrackTable, f, m); err != nil &&
			!errors.Is(err, netlink.ErrDumpInterrupted) {
			errs = append(errs, fmt.Errorf("connection tracking: %w", err))
		}
	}
	// The sockets after the entries: their resets would go to the dead.
	by := map[string][]flow{}
	for _, x := range m.found {
		if path, ok := space(x.from.Addr()); ok {
			by[path] = append(by[path], x)
		}
	}
	for path, flows := range by {
		errs = append(errs, destroyIn(path, flows))
	}
	return errors.Join(errs...)
}

// Tracked calls each with the destinations of all tracked connections, as their
// clients know them and as they were translated.
func Tracked(each func(to netip.Addr)) error {
	h, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open the connection tracking: %w", err)
	}
	defer h.Close()
	var errs []error
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		flows, err := h.ConntrackTableList(netlink.ConntrackTable, family)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			errs = append(errs, fmt.Errorf("connection tracking: %w", err))
		}
		for _, f := range flows {
			for _, ip := range []net.IP{f.Forward.DstIP, f.Reverse.SrcIP} {
				if a, ok := netip.AddrFromSlice(ip); ok {
					each(a.Unmap())
				}
			}
		}
	}
	return errors.Join(errs...)
}

func familyOf(a netip.Addr) netlink.InetFamily {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// match implements netlink.CustomConntrackFilter and keeps the connections of TCP
// that it has met.
type match struct {
	dead  map[netip.Addr]bool
	what  What
	found []flow
}

// MatchConntrackFlow says whether an entry leads to the dead: who answers is who it
// was translated to.
func (m *match) MatchConntrackFlow(f *netlink.ConntrackFlow) bool {
	to, ok := netip.AddrFromSlice(f.Reverse.SrcIP)
	if !ok || !m.dead[to.Unmap()] {
		return false
	}
	switch {
	case f.Forward.Protocol == unix.IPPROTO_UDP:
		return true
	case m.what != All:
		return false
	}
	src, ok1 := netip.AddrFromSlice(f.Forward.SrcIP)
	dst, ok2 := netip.AddrFromSlice(f.Forward.DstIP)
	if f.Forward.Protocol == unix.IPPROTO_TCP && ok1 && ok2 {
		m.found = append(m.found,
			flow{netip.AddrPortFrom(src.Unmap(), f.Forward.SrcPort),
				netip.AddrPortFrom(dst.Unmap(), f.Forward.DstPort)})
	}
	return true
}

// destroyIn ends sockets in a network namespace; "" is that of this process.
func destroyIn(path string, flows []flow) error {
	if path == "" {
		return destroy(flows)
	}
	err := onthread.InNetwork(path, func() error { return destroy(flows) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the client is gone, too
	}
	return err
}

// destroy ends sockets of the calling thread's namespace. One that is gone already
// is as it should be.
func destroy(flows []flow) error {
	var errs []error
	for _, f := range flows {
		r := nl.NewNetlinkRequest(nl.SOCK_DESTROY, unix.NLM_F_ACK)
		r.AddData(question(f))
		_, err := r.Execute(unix.NETLINK_INET_DIAG, 0)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("end the connection %s to %s: %w", f.from, f.to, err))
		}
	}
	return errors.Join(errs...)
}

// question names a socket to the kernel: struct inet_diag_req_v2.
type question flow

// Len implements nl.NetlinkRequestData.
func (question) Len() int { return 56 }

// Serialize implements nl.NetlinkRequestData.
func (q question) Serialize() []byte {
	b := make([]byte, 56)
	b[0], b[1] = byte(familyOf(q.from.Addr())), unix.IPPROTO_TCP
	nl.NativeEndian().PutUint32(b[4:], ^uint32(0)) // in any state
	binary.BigEndian.PutUint16(b[8:], q.from.Port())
	binary.BigEndian.PutUint16(b[10:], q.to.Port())
	copy(b[12:28], q.from.Addr().AsSlice())
	copy(b[28:44], q.to.Addr().AsSlice())
	nl.NativeEndian().PutUint32(b[48:], ^uint32(0)) // whatever its cookie
	nl.NativeEndian().PutUint32(b[52:], ^uint32(0))
	return b
}
