package rules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	// The kernel's own interface to nftables, without the program nft.
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Bounds of the socket's buffers: a transaction of a thousand services is one message,
// and each of its parts is answered, with nearly a kilobyte of the kernel's memory.
// Answers that find no room would make a failure of a change that was made.
const (
	writeBuffer = 16 << 20
	readBuffer  = 32 << 20
)

// Table is the worker's table in the kernel. Its methods may be called by several
// goroutines.
type Table struct {
	name string

	mu   sync.Mutex // guards below
	conn *nftables.Conn
	port uint32   // of conn, by which the kernel says who changed something
	now  *ruleset // what the kernel has; nil if that is not known
	// stale are choices that the kernel has beside them: a packet may still be on its
	// way to one when the rule that led there is gone. The next change removes them.
	stale map[choiceKey]*choice
	base  map[string]uint64
}

// Open prepares the table of the worker with a mark. Nothing is changed yet.
func Open(mark string) (*Table, error) {
	t := &Table{name: "verge-" + mark, base: map[string]uint64{}}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		port, err := portOf(c)
		t.port = port
		// Without the rights for more, what the system allows has to do.
		return errors.Join(err, c.SetWriteBuffer(writeBuffer), c.SetReadBuffer(readBuffer))
	}))
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	t.conn = conn
	if _, err := conn.ListTablesOfFamily(nftables.TableFamilyINet); err != nil {
		return nil, errors.Join(fmt.Errorf("nftables can't be used: %w", err), conn.CloseLasting())
	}
	return t, nil
}

// portOf is the number by which the kernel knows a socket.
func portOf(c *netlink.Conn) (port uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := raw.Control(func(fd uintptr) {
		var sa unix.Sockaddr
		if sa, err = unix.Getsockname(int(fd)); err == nil {
			if nl, ok := sa.(*unix.SockaddrNetlink); ok {
				port = nl.Pid
			}
		}
	})
	return port, errors.Join(err, cerr)
}

// Close lets go of the kernel's interface. The table stays.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conn.CloseLasting()
}

func (t *Table) table() *nftables.Table {
	return &nftables.Table{Name: t.name, Family: nftables.TableFamilyINet}
}

// Apply makes the kernel's table what the model says, in one transaction. Only what
// differs from the last Apply is sent, all of it at the first and after Forget.
func (t *Table) Apply(m *Model) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	next, err := compile(m, t.now)
	if err != nil {
		return fmt.Errorf("ruleset: %w", err)
	}
	if t.now != nil && sameFixed(t.now.fixed, next.fixed) {
		if err = t.change(t.now, next); err == nil {
			t.now = next
			return nil
		}
		// Somebody else changed it: all of it, then.
	}
	t.keepCounts()
	t.now = nil
	if ferr := t.write(next); ferr != nil {
		return errors.Join(fmt.Errorf("write the ruleset: %w", ferr), err)
	}
	t.now = next
	return nil
}

// Forget lets the next Apply write everything anew.
func (t *Table) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = nil
}

// Remove removes the table. One that is not there is none to remove.
func (t *Table) Remove() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = nil
	t.conn.AddTable(t.table()) // so that there is one to delete
	t.conn.DelTable(t.table())
	if err := t.conn.Flush(); err != nil {
		return fmt.Errorf("remove the ruleset: %w", err)
	}
	return nil
}

// Counts are the packets refused, by reason, since Open.
func (t *Table) Counts() (map[string]uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts()
}

func (t *Table) counts() (map[string]uint64, error) {
	out := maps.Clone(t.base)
	objs, err := t.conn.GetNamedObjects(t.table())
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return out, nil
		}
		return out, fmt.Errorf("read counters: %w", err)
	}
	for _, o := range objs {
		n, ok := o.(*nftables.NamedObj)
		if !ok {
			continue
		}
		if c, ok := n.Obj.(*expr.Counter); ok {
			out[n.Name] += c.Packets
		}
	}
	return out, nil
}

// keepCounts remembers what was counted by a table that is about to go.
func (t *Table) keepCounts() {
	if t.now == nil {
		return // an earlier engine's, or nobody knows whose
	}
	if had, err := t.counts(); err == nil {
		t.base = had
	}
}

func sameFixed(a, b []chain) bool {
	return slices.EqualFunc(a, b, func(x, y chain) bool { return x.name == y.name && sameRules(x, y) })
}

func sameRules(a, b chain) bool {
	return slices.EqualFunc(a.rules, b.rules, func(x, y rule) bool { return x.text == y.text })
}

// write replaces the table.
func (t *Table) write(rs *ruleset) error {
	table := t.table()
	t.conn.AddTable(table)
	t.conn.DelTable(table)
	t.conn.AddTable(table)
	for _, r := range reasons {
		t.conn.AddObj(&nftables.NamedObj{Table: table, Name: r, Type: nftables.ObjTypeCounter, Obj: &expr.Counter{}})
	}
	// Chains before what leads to them.
	chains := slices.Clone(rs.fixed)
	for _, name := range slices.Sorted(maps.Keys(rs.services)) {
		chains = append(chains, rs.services[name])
	}
	for i := range chains {
		t.addChain(table, &chains[i])
	}
	for _, name := range slices.Sorted(maps.Keys(rs.sets)) {
		s := rs.sets[name]
		k := s.kernel(table)
		if err := t.conn.AddSet(k, nil); err != nil {
			return err
		}
		if err := t.elements(k, values(s.elements), true); err != nil {
			return err
		}
	}
	if err := t.tell4(rs.sets, rs.apps4, true); err != nil {
		return err
	}
	for _, f := range []family{six, four} {
		for n := range buckets {
			if err := t.conn.AddSet(f.choices(n).kernel(table), nil); err != nil {
				return err
			}
		}
	}
	for i := range chains {
		t.addRules(table, &chains[i])
	}
	if err := t.choose(rs.choices, true); err != nil {
		return err
	}
	if err := t.conn.Flush(); err != nil {
		return err
	}
	t.stale = nil
	return nil
}

// tell4 adds or removes what is known of addresses' applications.
func (t *Table) tell4(sets map[string]*set, apps map[netip.Addr]uint32, add bool) error {
	from, of := make([]element, 0, len(apps)), make([]element, 0, len(apps))
	for a, app := range apps {
		x, y := app4(a, app)
		from, of = append(from, x), append(of, y)
	}
	return errors.Join(t.elements(sets[setFrom4].kernel(t.table()), from, add), t.elements(sets[setApp4].kernel(t.table()), of, add))
}

// choose adds or removes choices.
func (t *Table) choose(which map[choiceKey]*choice, add bool) error {
	by := map[string][]element{}
	for _, c := range which {
		by[c.set] = append(by[c.set], c.elements...)
	}
	for _, f := range []family{six, four} {
		for n := range buckets {
			if err := t.elements(f.choices(n).kernel(t.table()), by[bucketName(f, n)], add); err != nil {
				return err
			}
		}
	}
	return nil
}

// change brings the table from one ruleset to another with the same fixed chains.
func (t *Table) change(from, to *ruleset) error {
	table := t.table()
	for name, next := range to.services {
		had, there := from.services[name]
		switch {
		case !there:
			t.addChain(table, &next)
		case sameRules(had, next):
			continue
		default:
			t.conn.FlushChain(kernelChain(table, &next))
		}
		t.addRules(table, &next)
	}
	stale, fresh := map[choiceKey]*choice{}, map[choiceKey]*choice{}
	for k, c := range from.choices {
		if to.choices[k] == nil {
			stale[k] = c
		}
	}
	for k, c := range to.choices {
		if from.choices[k] == nil && t.stale[k] == nil {
			fresh[k] = c
		}
	}
	gone := maps.Clone(t.stale)
	maps.DeleteFunc(gone, func(k choiceKey, _ *choice) bool { return to.choices[k] != nil })
	if err := errors.Join(t.choose(gone, false), t.choose(fresh, true)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(to.sets)) {
		var gone, fresh []element
		had, next := from.sets[name].elements, to.sets[name].elements
		for text, e := range had {
			if _, stays := next[text]; !stays {
				gone = append(gone, e)
			}
		}
		for text, e := range next {
			if _, was := had[text]; !was {
				fresh = append(fresh, e)
			}
		}
		k := to.sets[name].kernel(table)
		if err := t.elements(k, gone, false); err != nil {
			return err
		}
		if err := t.elements(k, fresh, true); err != nil {
			return err
		}
	}
	gone4, fresh4 := map[netip.Addr]uint32{}, map[netip.Addr]uint32{}
	for a, app := range from.apps4 {
		if now, there := to.apps4[a]; !there || now != app {
			gone4[a] = app
		}
	}
	for a, app := range to.apps4 {
		if had, there := from.apps4[a]; !there || had != app {
			fresh4[a] = app
		}
	}
	if err := errors.Join(t.tell4(to.sets, gone4, false), t.tell4(to.sets, fresh4, true)); err != nil {
		return err
	}
	for name, c := range from.services {
		if _, stays := to.services[name]; !stays {
			t.conn.FlushChain(kernelChain(table, &c))
			t.conn.DelChain(kernelChain(table, &c))
		}
	}
	if err := t.conn.Flush(); err != nil {
		return err
	}
	t.stale = stale
	return nil
}

func kernelChain(table *nftables.Table, c *chain) *nftables.Chain {
	k := &nftables.Chain{Name: c.name, Table: table}
	if c.base != nil {
		k.Type, k.Hooknum, k.Priority = c.base.kind, c.base.hook, c.base.prio
	}
	return k
}

func (t *Table) addChain(table *nftables.Table, c *chain) { t.conn.AddChain(kernelChain(table, c)) }

func (t *Table) addRules(table *nftables.Table, c *chain) {
	k := &nftables.Chain{Name: c.name, Table: table}
	for _, r := range c.rules {
		t.conn.AddRule(&nftables.Rule{Table: table, Chain: k, Exprs: r.exprs})
	}
}

// atOnce is how many elements a message carries: its length is 16 bits.
const atOnce = 256

func (t *Table) elements(k *nftables.Set, list []element, add bool) error {
	slices.SortFunc(list, func(a, b element) int {
		if c := bytes.Compare(a.key, b.key); c != 0 || a.end == b.end {
			return c
		}
		if a.end { // of the interval before
			return -1
		}
		return 1
	})
	for some := range slices.Chunk(list, atOnce) {
		var err error
		if add {
			err = t.conn.SetAddElements(k, kernelElements(some))
		} else {
			err = t.conn.SetDeleteElements(k, kernelElements(some))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func values(m map[string]element) []element {
	out := make([]element, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out
}

func kernelElements(list []element) []nftables.SetElement {
	out := make([]nftables.SetElement, 0, len(list))
	for _, e := range list {
		k := nftables.SetElement{Key: e.key, Val: e.val, IntervalEnd: e.end}
		if e.jump != "" {
			k.VerdictData = &expr.Verdict{Kind: expr.VerdictJump, Chain: e.jump}
		}
		out = append(out, k)
	}
	return out
}

func (s *set) kernel(table *nftables.Table) *nftables.Set {
	k := &nftables.Set{Table: table, Name: s.name, KeyType: s.key, Concatenation: s.concat, Interval: s.interval}
	if s.val != nil {
		k.IsMap, k.DataType = true, *s.val
	}
	return k
}

// Watch calls tampered whenever somebody else has changed the table, or may have,
// until ctx is done. It sleeps in the kernel meanwhile.
func (t *Table) Watch(ctx context.Context, tampered func()) error {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("watch the ruleset: %w", err)
	}
	defer func() { _ = c.Close() }() // it is closed twice
	_ = c.SetReadBuffer(readBuffer)  // what the system allows has to do
	if err := c.JoinGroup(unix.NFNLGRP_NFTABLES); err != nil {
		return fmt.Errorf("watch the ruleset: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	for {
		msgs, err := c.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			// Events were lost, most likely our own, of a large change.
			if t.damaged() {
				tampered()
			}
			continue
		case err != nil:
			return fmt.Errorf("watch the ruleset: %w", err)
		}
		if slices.ContainsFunc(msgs, t.foreign) {
			tampered()
		}
	}
}

// foreign says whether an event is about our table and not of our making.
func (t *Table) foreign(m netlink.Message) bool {
	if m.Header.PID == t.port || len(m.Data) < 4 || uint16(m.Header.Type)&0xff == unix.NFT_MSG_NEWGEN {
		return false
	}
	ad, err := netlink.NewAttributeDecoder(m.Data[4:])
	if err != nil {
		return false
	}
	for ad.Next() {
		if ad.Type() == unix.NFTA_TABLE_NAME { // the same number in all messages
			return ad.String() == t.name
		}
	}
	return false
}

// damaged compares how much is there with how much should be.
func (t *Table) damaged() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil {
		return true
	}
	chains, err := t.conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return true
	}
	n := 0
	for _, c := range chains {
		if c.Table.Name == t.name {
			n++
		}
	}
	if n != len(t.now.fixed)+len(t.now.services) {
		return true
	}
	for i := range t.now.fixed {
		rules, err := t.conn.GetRules(t.table(), kernelChain(t.table(), &t.now.fixed[i]))
		if err != nil || len(rules) != len(t.now.fixed[i].rules) {
			return true
		}
	}
	return false
}
