package rules

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	// The kernel's own interface to nftables, without the program nft.
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/hostnet"
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
	sock *netlink.Conn // of conn
	port uint32        // of conn, by which the kernel says who changed something
	now  *ruleset      // what the kernel has; nil if that is not known
	// stale are choices that the kernel has beside them: a packet may still be on its
	// way to one when the rule that led there is gone. The next change removes them.
	stale map[choiceKey]*choice
	base  map[string]uint64
	room  int           // that the last transaction of all took
	watch *netlink.Conn // of Watch, while there is one
	// doubt says that somebody may have changed the table while nobody listened.
	doubt bool
}

// Open prepares the table of the worker with a mark. Nothing is changed yet.
func Open(mark string) (*Table, error) {
	t := &Table{name: hostnet.Tables + mark, base: map[string]uint64{}}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		port, err := portOf(c)
		t.port, t.sock = port, c
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

// Name of the table.
func (t *Table) Name() string { return t.name }

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
	t.doubt = false
	if t.now != nil && sameFixed(t.now.fixed, next.fixed) {
		if err = t.change(t.now, next); err == nil {
			t.now = next
			if !t.doubt || !t.damagedLocked() {
				return nil
			}
		}
		// Somebody else changed it: all of it, then.
	}
	t.keepCounts()
	t.now = nil
	if ferr := t.write(next); ferr != nil {
		return errors.Join(fmt.Errorf("write the ruleset: %w", ferr), err)
	}
	t.now = next
	if t.doubt && t.damagedLocked() {
		t.now = nil
		return errors.New("write the ruleset: somebody changed it at the same time")
	}
	return nil
}

// loud is from how many bytes on a transaction is nothing that we listen to. The
// kernel would make a message of each element, which takes as long as the change.
const loud = 1 << 15

// send commits a transaction. It is called with t.mu.
func (t *Table) send(b *batch) error {
	if t.watch == nil || len(b.buf) < loud {
		return b.commit(t.sock)
	}
	before, err := t.generation()
	if err == nil {
		err = t.watch.LeaveGroup(unix.NFNLGRP_NFTABLES)
	}
	if err != nil {
		return b.commit(t.sock)
	}
	err = b.commit(t.sock)
	if jerr := t.watch.JoinGroup(unix.NFNLGRP_NFTABLES); jerr != nil {
		_ = t.watch.Close() // Watch ends, and says that nothing is noticed any more
	}
	// Each transaction is a generation. One more than ours is somebody else's.
	after, gerr := t.generation()
	t.doubt = t.doubt || gerr != nil || after != before+1
	return err
}

// generation counts the changes of rulesets.
func (t *Table) generation() (uint32, error) {
	msgs, err := t.sock.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: netlink.Request},
		Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0},
	})
	if err != nil {
		return 0, err
	}
	for _, m := range msgs {
		ad, err := netlink.NewAttributeDecoder(m.Data[min(4, len(m.Data)):])
		if err != nil {
			return 0, err
		}
		ad.ByteOrder = binary.BigEndian
		for ad.Next() {
			if ad.Type() == unix.NFTA_GEN_ID {
				return ad.Uint32(), nil
			}
		}
	}
	return 0, errors.New("the kernel does not say its generation")
}

// Forget lets the next Apply write everything anew.
func (t *Table) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = nil
}

// Remove removes the table, if it exists.
func (t *Table) Remove() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = nil
	b := newBatch(t.name, 256)
	b.addTable() // so that there is one to delete
	b.delTable()
	if err := b.commit(t.sock); err != nil {
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
	b := newBatch(t.name, t.room)
	b.addTable()
	b.delTable()
	b.addTable()
	for _, r := range reasons {
		b.addCounter(r)
	}
	// Chains before what leads to them.
	chains := make([]*chain, 0, rs.chains())
	for i := range rs.fixed {
		chains = append(chains, &rs.fixed[i])
	}
	for _, c := range rs.apps {
		chains = append(chains, &c)
	}
	var news changes
	for _, is := range rs.made {
		for i := range is.in {
			chains = append(chains, &is.in[i].chain)
		}
		news.add(is)
	}
	for _, c := range chains {
		b.addChain(c)
	}
	id := uint32(0)
	addSet := func(s *set) { id++; b.addSet(s, id) }
	for _, name := range slices.Sorted(maps.Keys(rs.sets)) {
		s := rs.sets[name]
		addSet(s)
		b.elements(name, slices.Collect(maps.Values(s.elements)), true)
		b.elements(name, slices.Collect(maps.Values(news.elements[name])), true)
	}
	b.tell4(rs.apps4, true)
	for _, f := range []family{six, four} {
		for n := range buckets {
			addSet(f.choices(n))
		}
	}
	for _, c := range chains {
		b.addRules(c)
	}
	b.choose(news.choices, true)
	t.room = len(b.buf) + 1<<12
	if err := t.send(b); err != nil {
		return err
	}
	t.stale = nil
	return nil
}

// chains is how many there are.
func (rs *ruleset) chains() int {
	n := len(rs.fixed) + len(rs.apps)
	for _, is := range rs.made {
		n += len(is.in)
	}
	return n
}

// chain of a service in a family; nil if there is none.
func (is *made) chain(f family) *chain {
	if is == nil {
		return nil
	}
	for i := range is.in {
		if is.in[i].f == f {
			return &is.in[i].chain
		}
	}
	return nil
}

// changes are what some services have in sets, and what their rules choose from.
type changes struct {
	elements map[string]map[string]element // by set and text
	choices  map[choiceKey]*choice
}

func (c *changes) add(is *made) {
	if c.elements == nil {
		c.elements, c.choices = map[string]map[string]element{}, map[choiceKey]*choice{}
	}
	put := func(set string, e element) {
		if c.elements[set] == nil {
			c.elements[set] = map[string]element{}
		}
		c.elements[set][e.text] = e
	}
	for i := range is.in {
		x := &is.in[i]
		x.put(put)
		for _, r := range x.chain.rules {
			c.choices[r.choice.key] = r.choice
		}
	}
}

// without removes from both what both have.
func (c *changes) without(o *changes) {
	for set, list := range c.elements {
		for text := range list {
			if _, both := o.elements[set][text]; both {
				delete(list, text)
				delete(o.elements[set], text)
			}
		}
	}
	for k := range c.choices {
		if o.choices[k] != nil {
			delete(c.choices, k)
			delete(o.choices, k)
		}
	}
}

// tell4 adds or removes the applications of IPv4 addresses.
func (b *batch) tell4(apps map[netip.Addr]uint32, add bool) {
	from, of := make([]element, 0, len(apps)), make([]element, 0, len(apps))
	for a, app := range apps {
		x, y := app4(a, app)
		from, of = append(from, x), append(of, y)
	}
	b.elements(setFrom4, from, add)
	b.elements(setApp4, of, add)
}

// choose adds or removes what choices lead to.
func (b *batch) choose(which map[choiceKey]*choice, add bool) {
	by := map[string][]element{}
	for _, c := range which {
		by[c.set] = append(by[c.set], c.elements...)
	}
	for name, list := range by {
		b.elements(name, list, add)
	}
}

// change turns one ruleset into another, with the same fixed chains.
func (t *Table) change(from, to *ruleset) error {
	b := newBatch(t.name, 1<<12)
	rewrite := func(had, next *chain) {
		switch {
		case had == nil:
			b.addChain(next)
		case sameRules(*had, *next):
			return
		default:
			b.flushChain(next.name)
		}
		b.addRules(next)
	}
	for name, next := range to.apps {
		if had, there := from.apps[name]; there {
			rewrite(&had, &next)
		} else {
			rewrite(nil, &next)
		}
	}
	var gone, fresh changes
	var ended []*chain
	for name, next := range to.made {
		had := from.made[name]
		if had == next {
			continue
		}
		fresh.add(next)
		if had != nil {
			gone.add(had)
		}
		for i := range next.in {
			rewrite(had.chain(next.in[i].f), &next.in[i].chain)
		}
	}
	for name, had := range from.made {
		next := to.made[name]
		if next == nil {
			gone.add(had)
		}
		for i := range had.in {
			if next != had && next.chain(had.in[i].f) == nil {
				ended = append(ended, &had.in[i].chain)
			}
		}
	}
	gone.without(&fresh)
	// What is there still is not added again, and what is to be there not removed.
	stale, old := gone.choices, maps.Clone(t.stale)
	for k := range fresh.choices {
		if old[k] != nil {
			delete(fresh.choices, k)
			delete(old, k)
		}
	}
	b.choose(old, false)
	b.choose(fresh.choices, true)
	for _, name := range slices.Sorted(maps.Keys(to.sets)) {
		remove, add := slices.Collect(maps.Values(gone.elements[name])),
			slices.Collect(maps.Values(fresh.elements[name]))
		had, next := from.sets[name].elements, to.sets[name].elements
		for text, e := range had {
			if _, stays := next[text]; !stays {
				remove = append(remove, e)
			}
		}
		for text, e := range next {
			if _, was := had[text]; !was {
				add = append(add, e)
			}
		}
		b.elements(name, remove, false)
		b.elements(name, add, true)
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
	b.tell4(gone4, false)
	b.tell4(fresh4, true)
	for name, c := range from.apps {
		if _, stays := to.apps[name]; !stays {
			ended = append(ended, &c)
		}
	}
	for _, c := range ended {
		b.flushChain(c.name)
		b.delChain(c.name)
	}
	if err := t.send(b); err != nil {
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

// Watch calls tampered whenever another program has changed the table, or may have, until ctx is
// done. It sleeps in the kernel meanwhile. others is called for changes of foreign tables; base:
// in a base chain.
func (t *Table) Watch(ctx context.Context, tampered func(), others func(base bool)) error {
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
	t.mu.Lock()
	t.watch = c
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.watch = nil
		t.mu.Unlock()
	}()
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
		if others == nil {
			continue
		}
		changed, base := false, false
		for _, m := range msgs {
			table, hooked := about(m)
			if table != "" && !strings.HasPrefix(table, hostnet.Tables) {
				changed, base = true, base || hooked
			}
		}
		if changed {
			others(base)
		}
	}
}

// about is the table that an event is about, "" for none, and whether it is about a
// chain that packets come to by themselves.
func about(m netlink.Message) (table string, hooked bool) {
	kind := uint16(m.Header.Type) & 0xff
	if len(m.Data) < 4 || kind == unix.NFT_MSG_NEWGEN {
		return "", false
	}
	ad, err := netlink.NewAttributeDecoder(m.Data[4:])
	if err != nil {
		return "", false
	}
	for ad.Next() {
		switch ad.Type() {
		case unix.NFTA_TABLE_NAME: // the same number in all messages
			table = ad.String()
		case unix.NFTA_CHAIN_HOOK:
			hooked = kind == unix.NFT_MSG_NEWCHAIN || kind == unix.NFT_MSG_DELCHAIN
		}
	}
	return table, hooked
}

// foreign says whether an event is about our table and not of our making.
func (t *Table) foreign(m netlink.Message) bool {
	table, _ := about(m)
	return m.Header.PID != t.port && table == t.name
}

// damaged compares how much is there with how much should be.
func (t *Table) damaged() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.damagedLocked()
}

func (t *Table) damagedLocked() bool {
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
	if n != t.now.chains() {
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
