package rules

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// batch is a transaction as the kernel reads it. The library's own is made for few
// rules: it keeps each message and each of its parts apart, and has the kernel answer
// each with a copy of it, which together takes longer than what the kernel does. Here
// one buffer grows, and only failures and the end are answered.
type batch struct {
	table string
	buf   []byte
	last  int // where the last message begins; 0: there is none yet
	seq   uint32
	err   error
}

const inet = byte(nftables.TableFamilyINet)

// newBatch has room for about so many bytes.
func newBatch(table string, room int) *batch {
	b := &batch{table: table, buf: make([]byte, 0, room)}
	b.control(unix.NFNL_MSG_BATCH_BEGIN)
	return b
}

func (b *batch) control(kind uint16) {
	end := b.header(kind, 0)
	b.buf = append(b.buf, unix.AF_UNSPEC, unix.NFNETLINK_V0, unix.NFNL_SUBSYS_NFTABLES>>8, unix.NFNL_SUBSYS_NFTABLES)
	end()
}

// header begins a message; what is returned ends it.
func (b *batch) header(kind, flags uint16) func() {
	at := len(b.buf)
	b.seq++
	b.buf = append(b.buf, 0, 0, 0, 0)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, kind)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, flags|unix.NLM_F_REQUEST)
	b.buf = binary.NativeEndian.AppendUint32(b.buf, b.seq)
	b.buf = append(b.buf, 0, 0, 0, 0)
	return func() { binary.NativeEndian.PutUint32(b.buf[at:], uint32(len(b.buf)-at)) } //nolint:gosec // far below
}

func (b *batch) message(kind, flags uint16) func() {
	b.last = len(b.buf)
	end := b.header(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags)
	b.buf = append(b.buf, inet, unix.NFNETLINK_V0, 0, 0)
	return end
}

// open begins an attribute of attributes, which close ends.
func (b *batch) open(kind uint16) int { return b.attribute(kind | unix.NLA_F_NESTED) }

func (b *batch) attribute(kind uint16) int {
	at := len(b.buf)
	b.buf = append(b.buf, 0, 0)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, kind)
	return at
}

func (b *batch) close(at int) {
	n := len(b.buf) - at
	if n > 0xffff {
		b.err = errors.New("a part of the ruleset is longer than the kernel takes")
		return
	}
	binary.NativeEndian.PutUint16(b.buf[at:], uint16(n))
	for len(b.buf)%4 != 0 {
		b.buf = append(b.buf, 0)
	}
}

func (b *batch) text(kind uint16, s string) {
	at := b.attribute(kind)
	b.buf = append(append(b.buf, s...), 0)
	b.close(at)
}

func (b *batch) bytes(kind uint16, data []byte) {
	at := b.attribute(kind)
	b.buf = append(b.buf, data...)
	b.close(at)
}

func (b *batch) number(kind uint16, n uint32) {
	at := b.attribute(kind)
	b.buf = binary.BigEndian.AppendUint32(b.buf, n)
	b.close(at)
}

func (b *batch) addTable() {
	defer b.message(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE)()
	b.text(unix.NFTA_TABLE_NAME, b.table)
}

func (b *batch) delTable() {
	defer b.message(unix.NFT_MSG_DELTABLE, 0)()
	b.text(unix.NFTA_TABLE_NAME, b.table)
}

func (b *batch) addCounter(name string) {
	defer b.message(unix.NFT_MSG_NEWOBJ, unix.NLM_F_CREATE)()
	b.text(unix.NFTA_OBJ_TABLE, b.table)
	b.text(unix.NFTA_OBJ_NAME, name)
	b.number(unix.NFTA_OBJ_TYPE, unix.NFT_OBJECT_COUNTER)
	b.close(b.open(unix.NFTA_OBJ_DATA))
}

func (b *batch) addChain(c *chain) {
	defer b.message(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE)()
	b.text(unix.NFTA_CHAIN_TABLE, b.table)
	b.text(unix.NFTA_CHAIN_NAME, c.name)
	if c.base == nil {
		return
	}
	at := b.open(unix.NFTA_CHAIN_HOOK)
	b.number(unix.NFTA_HOOK_HOOKNUM, uint32(*c.base.hook))
	b.number(unix.NFTA_HOOK_PRIORITY, uint32(*c.base.prio)) //nolint:gosec // it is sent in two's complement
	b.close(at)
	b.text(unix.NFTA_CHAIN_TYPE, string(c.base.kind))
}

func (b *batch) delChain(name string) {
	defer b.message(unix.NFT_MSG_DELCHAIN, 0)()
	b.text(unix.NFTA_CHAIN_TABLE, b.table)
	b.text(unix.NFTA_CHAIN_NAME, name)
}

// flushChain removes the rules of a chain.
func (b *batch) flushChain(name string) {
	defer b.message(unix.NFT_MSG_DELRULE, 0)()
	b.text(unix.NFTA_RULE_TABLE, b.table)
	b.text(unix.NFTA_RULE_CHAIN, name)
}

func (b *batch) addRules(c *chain) {
	for _, r := range c.rules {
		end := b.message(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND)
		b.text(unix.NFTA_RULE_TABLE, b.table)
		b.text(unix.NFTA_RULE_CHAIN, c.name)
		all := b.open(unix.NFTA_RULE_EXPRESSIONS)
		for _, e := range r.exprs {
			data, err := expr.Marshal(inet, e)
			if err != nil {
				b.err = err
			}
			at := b.open(unix.NFTA_LIST_ELEM)
			b.buf = append(b.buf, data...)
			b.close(at)
		}
		b.close(all)
		end()
	}
}

func (b *batch) addSet(s *set, id uint32) {
	defer b.message(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE)()
	var flags uint32
	if s.interval {
		flags |= unix.NFT_SET_INTERVAL
	}
	if s.val != nil {
		flags |= unix.NFT_SET_MAP
	}
	if s.concat {
		flags |= nftables.NFT_SET_CONCAT
	}
	b.text(unix.NFTA_SET_TABLE, b.table)
	b.text(unix.NFTA_SET_NAME, s.name)
	b.number(unix.NFTA_SET_FLAGS, flags)
	b.number(unix.NFTA_SET_KEY_TYPE, s.key.GetNFTMagic())
	b.number(unix.NFTA_SET_KEY_LEN, s.key.Bytes)
	b.number(unix.NFTA_SET_ID, id)
	if s.val != nil {
		kind := s.val.GetNFTMagic()
		if kind == nftables.TypeVerdict.GetNFTMagic() {
			kind = unix.NFT_DATA_VERDICT
		}
		b.number(unix.NFTA_SET_DATA_TYPE, kind)
		b.number(unix.NFTA_SET_DATA_LEN, s.val.Bytes)
	}
	if s.concat { // without the lengths of its parts the program nft cannot list it
		desc := b.open(unix.NFTA_SET_DESC)
		all := b.open(nftables.NFTA_SET_DESC_CONCAT)
		for _, t := range nftables.ConcatSetTypeElements(s.key) {
			at := b.open(unix.NFTA_LIST_ELEM)
			b.number(unix.NFTA_DATA_VALUE, t.Bytes)
			b.close(at)
		}
		b.close(all)
		b.close(desc)
	}
}

// atOnce is how many elements a message carries: its length is 16 bits.
const atOnce = 256

// elements of a set are added or removed. The end of an interval has to come before
// the beginning of the next.
func (b *batch) elements(set string, list []element, add bool) {
	if len(list) == 0 {
		return
	}
	kind := uint16(unix.NFT_MSG_NEWSETELEM)
	if !add {
		kind = unix.NFT_MSG_DELSETELEM
	}
	for len(list) > 0 {
		some := list[:min(len(list), atOnce)]
		list = list[len(some):]
		end := b.message(kind, unix.NLM_F_CREATE)
		b.text(unix.NFTA_SET_ELEM_LIST_TABLE, b.table)
		b.text(unix.NFTA_SET_ELEM_LIST_SET, set)
		all := b.open(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for i := range some {
			b.element(&some[i])
		}
		b.close(all)
		end()
	}
}

func (b *batch) element(e *element) {
	at := b.open(unix.NFTA_LIST_ELEM)
	if e.end {
		b.number(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
	}
	key := b.open(unix.NFTA_SET_ELEM_KEY)
	b.bytes(unix.NFTA_DATA_VALUE, e.key)
	b.close(key)
	switch {
	case e.jump != "":
		data := b.open(unix.NFTA_SET_ELEM_DATA)
		verdict := b.open(unix.NFTA_DATA_VERDICT)
		b.number(unix.NFTA_VERDICT_CODE,
			uint32(expr.VerdictJump&0xffffffff)) //nolint:gosec // it is sent in two's complement
		b.text(unix.NFTA_VERDICT_CHAIN, e.jump)
		b.close(verdict)
		b.close(data)
	case len(e.val) > 0:
		data := b.open(unix.NFTA_SET_ELEM_DATA)
		b.bytes(unix.NFTA_DATA_VALUE, e.val)
		b.close(data)
	}
	b.close(at)
}

// commit hands the transaction over. All of it holds then, or, with an error, nothing.
func (b *batch) commit(c *netlink.Conn) error {
	if b.err != nil || b.last == 0 {
		return b.err
	}
	flags := binary.NativeEndian.Uint16(b.buf[b.last+6:])
	binary.NativeEndian.PutUint16(b.buf[b.last+6:], flags|unix.NLM_F_ACK)
	last := b.seq
	b.control(unix.NFNL_MSG_BATCH_END)
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) {
		err = unix.Sendto(int(fd), b.buf, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if err == nil {
			err = answers(int(fd), last)
		}
	})
	return errors.Join(err, cerr)
}

// answers reads what the kernel has said: all of it is there when it has taken a
// transaction.
func answers(fd int, last uint32) error {
	const head, most = unix.NLMSG_HDRLEN, 8
	var errs []error
	done := false
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			if !done && len(errs) == 0 {
				errs = append(errs, errors.New("the kernel did not answer"))
			}
			return errors.Join(errs...)
		case errors.Is(err, unix.ENOBUFS):
			errs = append(errs, err) // there were more failures than it could say
			continue
		case err != nil:
			return errors.Join(append(errs, err)...)
		}
		for m := buf[:n]; len(m) >= head+4; {
			size := int(binary.NativeEndian.Uint32(m))
			if size < head || size > len(m) {
				break
			}
			if binary.NativeEndian.Uint16(m[4:]) == unix.NLMSG_ERROR {
				code := int32(binary.NativeEndian.Uint32(m[head:])) //nolint:gosec // it is one
				if code != 0 && len(errs) < most {
					errs = append(errs, fmt.Errorf("nftables: %w", unix.Errno(-code)))
				}
				done = done || binary.NativeEndian.Uint32(m[8:]) == last
			}
			m = m[min(len(m), (size+3)&^3):]
		}
	}
}
