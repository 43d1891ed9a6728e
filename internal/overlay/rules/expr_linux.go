package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Registers: 1 to 4 have 16 bytes, and each is four of 4 bytes from 8 on.
const (
	wide1   = unix.NFT_REG_1
	wide2   = unix.NFT_REG_2
	narrow  = unix.NFT_REG32_00
	narrow1 = unix.NFT_REG32_01
	narrow2 = unix.NFT_REG32_02
	narrow4 = unix.NFT_REG32_04
	narrow5 = unix.NFT_REG32_05
)

// part is a piece of a rule, as people and as the kernel read it.
type part struct {
	text  string
	exprs []expr.Any
}

// rule of a chain; choice, if there is one, is what its exprs look up.
type rule struct {
	text   string
	exprs  []expr.Any
	choice *choice
}

// choice is what becomes of the numbers that a rule draws. All choices of a family
// share some maps, in which each has a key of its own before the number: the kernel
// needs quadratic time for as many maps as there are services.
type choice struct {
	key      choiceKey
	set      string
	elements []element
}

// choiceKey is made of the rule's chain and text: another choice has another key, so
// that packets which are between the rule and the map find what they look for.
type choiceKey [8]byte

// buckets are the maps that choices of a family share. The kernel compares each
// element that is added with each rule that looks there.
const buckets = 32

func bucketName(f family, n int) string { return fmt.Sprintf("to%c-%02x", f.digit, n) }

func join(parts ...part) rule {
	var r rule
	var text []string
	for _, p := range parts {
		text = append(text, p.text)
		r.exprs = append(r.exprs, p.exprs...)
	}
	r.text = strings.Join(text, " ")
	return r
}

// element of a set or map.
type element struct {
	text string
	key  []byte
	end  bool   // the end of an interval
	val  []byte // of a map
	jump string // of a map of verdicts: the chain
}

// set is a named set or map.
type set struct {
	name     string
	text     string // its type
	key      nftables.SetDatatype
	val      *nftables.SetDatatype
	concat   bool
	interval bool
	elements map[string]element // by text
}

func load(key expr.MetaKey, reg uint32) *expr.Meta { return &expr.Meta{Key: key, Register: reg} }

// equals and differs compare what was loaded last.
func equals(data []byte) *expr.Cmp {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: wide1, Data: data}
}

func differs(data []byte) *expr.Cmp {
	return &expr.Cmp{Op: expr.CmpOpNeq, Register: wide1, Data: data}
}

// device matches a device by the beginning of its name, or by all of it.
func device(key expr.MetaKey, name string, whole, not bool) part {
	words, star, op := "iifname", "*", ""
	if key == expr.MetaKeyOIFNAME {
		words = "oifname"
	}
	data := []byte(name)
	if whole {
		star = ""
		data = make([]byte, unix.IFNAMSIZ)
		copy(data, name)
	}
	c := equals(data)
	if not {
		c, op = differs(data), "!= "
	}
	return part{fmt.Sprintf("%s %s%q", words, op, name+star), []expr.Any{load(key, wide1), c}}
}

func iif(prefix string) part    { return device(expr.MetaKeyIIFNAME, prefix, false, false) }
func notIif(prefix string) part { return device(expr.MetaKeyIIFNAME, prefix, false, true) }
func iifIs(name string) part    { return device(expr.MetaKeyIIFNAME, name, true, false) }
func notIifIs(name string) part { return device(expr.MetaKeyIIFNAME, name, true, true) }
func oif(prefix string) part    { return device(expr.MetaKeyOIFNAME, prefix, false, false) }
func notOif(prefix string) part { return device(expr.MetaKeyOIFNAME, prefix, false, true) }
func oifIs(name string) part    { return device(expr.MetaKeyOIFNAME, name, true, false) }

// family of an address as the kernel and people name it.
type family struct {
	word     string
	nfproto  byte
	src, dst uint32 // offsets in the header
	size     uint32
	kind     nftables.SetDatatype
	digit    byte
}

var (
	six  = family{"ip6", unix.NFPROTO_IPV6, 8, 24, 16, nftables.TypeIP6Addr, '6'}
	four = family{"ip", unix.NFPROTO_IPV4, 12, 16, 4, nftables.TypeIPAddr, '4'}
)

func (f family) is() part {
	return part{"", []expr.Any{load(expr.MetaKeyNFPROTO, wide1), equals([]byte{f.nfproto})}}
}

func (f family) load(offset, reg uint32) *expr.Payload {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: f.size}
}

// addr matches a source ("saddr") or destination ("daddr") in a network.
func (f family) addr(which string, p netip.Prefix, not bool) part {
	offset := f.src
	if which == "daddr" {
		offset = f.dst
	}
	mask := make([]byte, f.size)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	c, op := equals(p.Masked().Addr().AsSlice()), ""
	if not {
		c, op = differs(p.Masked().Addr().AsSlice()), "!= "
	}
	exprs := f.is().exprs
	// Whole bytes need no mask.
	bytes := uint32((p.Bits() + 7) / 8)
	if f.size == 4 && bytes == 3 {
		bytes = 4 // which is cheaper, with a mask
	}
	l := f.load(offset, wide1)
	l.Len, c.Data = bytes, c.Data[:bytes]
	exprs = append(exprs, l)
	if uint32(p.Bits()) != 8*bytes { //nolint:gosec // at most 128
		exprs = append(exprs, &expr.Bitwise{SourceRegister: wide1, DestRegister: wide1, Len: bytes, Mask: mask[:bytes],
			Xor: make([]byte, bytes)})
	}
	return part{fmt.Sprintf("%s %s %s%s", f.word, which, op, p), append(exprs, c)}
}

// often is addr for what most packets of the machine are compared with: by words of
// the header, the last one first, since in that most differ. What the kernel can load
// into one register and compare there needs no call of a function.
func (f family) often(which string, p netip.Prefix) part {
	if p.Bits()%8 != 0 || f.size == 4 {
		return f.addr(which, p, false)
	}
	offset := f.src
	if which == "daddr" {
		offset = f.dst
	}
	r := part{fmt.Sprintf("%s %s %s", f.word, which, p), f.is().exprs}
	want := p.Masked().Addr().AsSlice()
	for end := uint32(p.Bits() / 8); end > 0; { //nolint:gosec // at most 128
		n := uint32(4)
		for end%n != 0 {
			n /= 2
		}
		end -= n
		l := f.load(offset+end, wide1)
		l.Len = n
		r.exprs = append(r.exprs, l, equals(want[end:end+n]))
	}
	return r
}

func (f family) daddr(p netip.Prefix) part { return f.addr("daddr", p, false) }
func (f family) saddrIs(a netip.Addr) part {
	return f.addr("saddr", netip.PrefixFrom(a, a.BitLen()), false)
}
func (f family) saddr(p netip.Prefix) part    { return f.addr("saddr", p, false) }
func (f family) notDaddr(p netip.Prefix) part { return f.addr("daddr", p, true) }
func (f family) daddrIs(a netip.Addr) part {
	return f.addr("daddr", netip.PrefixFrom(a, a.BitLen()), false)
}

func (f family) daddrIn(s string, not bool) part {
	op := ""
	if not {
		op = "!= "
	}
	return part{
		fmt.Sprintf("%s daddr %s@%s", f.word, op, s),
		append(f.is().exprs, f.load(f.dst, wide1), &expr.Lookup{SourceRegister: wide1, SetName: s, Invert: not}),
	}
}

// toService jumps to the chain of the service that has the destination.
func (f family) toService(s string) part {
	return part{
		fmt.Sprintf("%s daddr vmap @%s", f.word, s),
		append(f.is().exprs, f.load(f.dst, wide1),
			&expr.Lookup{SourceRegister: wide1, SetName: s, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true}),
	}
}

// linked matches packets whose source is that of the device they came by.
func (f family) linked(s string) part {
	return part{
		fmt.Sprintf("iifname . %s saddr @%s", f.word, s),
		append(f.is().exprs, load(expr.MetaKeyIIFNAME, wide1), f.load(f.src, wide2),
			&expr.Lookup{SourceRegister: wide1, SetName: s}),
	}
}

// pair matches source and destination together.
func (f family) pair(s string) part {
	second := uint32(wide2)
	if f.size == 4 {
		second = narrow1
	}
	return part{
		fmt.Sprintf("%s saddr . %s daddr @%s", f.word, f.word, s),
		append(f.is().exprs, f.load(f.src, wide1), f.load(f.dst, second),
			&expr.Lookup{SourceRegister: wide1, SetName: s}),
	}
}

// exported matches destination, protocol and port.
func (f family) exported(s string) part {
	proto, port := uint32(narrow4), uint32(narrow5)
	if f.size == 4 {
		proto, port = narrow1, narrow2
	}
	return part{
		fmt.Sprintf("%s daddr . meta l4proto . th dport @%s", f.word, s),
		append(f.is().exprs, f.load(f.dst, wide1), load(expr.MetaKeyL4PROTO, proto),
			&expr.Payload{DestRegister: port, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			&expr.Lookup{SourceRegister: wide1, SetName: s}),
	}
}

// appBits are those of the application in an IPv6 address.
var appBits = netip.MustParseAddr("::ffff:ff00:0").As16()

// appAddr is an application's number at its place in an otherwise empty address.
func appAddr(app uint32) netip.Addr {
	var b [16]byte
	b[10], b[11], b[12] = byte(app>>16), byte(app>>8), byte(app)
	return netip.AddrFrom16(b)
}

func loadApp(offset uint32) []expr.Any {
	return append(six.is().exprs, six.load(offset, wide1),
		&expr.Bitwise{SourceRegister: wide1, DestRegister: wide1, Len: 16, Mask: appBits[:], Xor: make([]byte, 16)})
}

// fromApp jumps to the chain of the sender's application, by the bits of its address.
func fromApp(s string) part {
	return part{
		"ip6 saddr & app vmap @" + s,
		append(loadApp(six.src), &expr.Lookup{SourceRegister: wide1, SetName: s, DestRegister: unix.NFT_REG_VERDICT,
			IsDestRegSet: true}),
	}
}

// fromHost matches what a worker itself sends: application 0.
func fromHost() part {
	return part{"ip6 saddr & app == 0", append(loadApp(six.src), equals(make([]byte, 16)))}
}

// toApp matches what goes to an application, by the bits of the address.
func toApp(app uint32) part {
	return part{fmt.Sprintf("ip6 daddr & app == %d", app), append(loadApp(six.dst), equals(appAddr(app).AsSlice()))}
}

// toApp4 does so by what is known of the address.
func toApp4(app uint32) part {
	return part{
		fmt.Sprintf("ip daddr map @%s == %d", setApp4, app),
		append(four.is().exprs, four.load(four.dst, wide1),
			&expr.Lookup{SourceRegister: wide1, SetName: setApp4, DestRegister: wide1, IsDestRegSet: true},
			equals(appKey(app))),
	}
}

// fromApp4 jumps to the chain of the sender's application, by its address.
func fromApp4(s string) part {
	return part{
		"ip saddr vmap @" + s,
		append(four.is().exprs, four.load(four.src, wide1),
			&expr.Lookup{SourceRegister: wide1, SetName: s, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true}),
	}
}

// fromKnown4 matches senders with a known application.
func fromKnown4() part {
	return part{
		"ip saddr map @" + setApp4 + " exists",
		append(four.is().exprs, four.load(four.src, wide1),
			&expr.Lookup{SourceRegister: wide1, SetName: setApp4, DestRegister: wide1, IsDestRegSet: true}),
	}
}

func l4(proto string) part {
	number := map[string]byte{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "icmp": unix.IPPROTO_ICMP,
		"icmpv6": unix.IPPROTO_ICMPV6}[proto]
	return part{"meta l4proto " + proto, []expr.Any{load(expr.MetaKeyL4PROTO, wide1), equals([]byte{number})}}
}

func dport(port uint16) part {
	return part{fmt.Sprintf("th dport %d", port), []expr.Any{
		&expr.Payload{DestRegister: wide1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		equals(binaryutil.BigEndian.PutUint16(port)),
	}}
}

// clamp matches the first packets of connections over TCP, and has both ends send
// no larger segments than fit the ways between them.
func clamp() part {
	const flagsAt, syn, optionMSS = 13, 0x02, 2
	return part{"tcp flags syn tcp option maxseg size set rt mtu", append(l4("tcp").exprs,
		&expr.Payload{DestRegister: wide1, Base: expr.PayloadBaseTransportHeader, Offset: flagsAt, Len: 1},
		&expr.Bitwise{SourceRegister: wide1, DestRegister: wide1, Len: 1, Mask: []byte{syn}, Xor: []byte{0}},
		differs([]byte{0}),
		&expr.Rt{Register: wide1, Key: expr.RtTCPMSS},
		&expr.Byteorder{SourceRegister: wide1, DestRegister: wide1, Op: expr.ByteorderHton, Len: 2, Size: 2},
		&expr.Exthdr{SourceRegister: wide1, Type: optionMSS, Offset: 2, Len: 2, Op: expr.ExthdrOpTcpopt},
	)}
}

// bits matches where one of some bits of the connection tracking is set.
func bits(text string, key expr.CtKey, mask uint32) part {
	return part{text, []expr.Any{
		&expr.Ct{Key: key, Register: wide1},
		&expr.Bitwise{SourceRegister: wide1, DestRegister: wide1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(mask),
			Xor: make([]byte, 4)},
		differs(make([]byte, 4)),
	}}
}

func established() part {
	return bits("ct state established,related", expr.CtKeySTATE, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED)
}

// assured matches connections with packets in both directions, and of TCP from the third packet
// on: the earlier ones have been judged and changed as needed.
func assured() part { return bits("ct status assured", expr.CtKeySTATUS, 1<<2) }

// translated matches connections whose destination was changed.
func translated() part { return bits("ct status dnat", expr.CtKeySTATUS, 1<<5) }

func verdict(text string, kind expr.VerdictKind, chain string) part {
	return part{strings.TrimSpace(text + " " + chain), []expr.Any{&expr.Verdict{Kind: kind, Chain: chain}}}
}

func accept() part           { return verdict("accept", expr.VerdictAccept, "") }
func drop() part             { return verdict("drop", expr.VerdictDrop, "") }
func goTo(chain string) part { return verdict("goto", expr.VerdictGoto, chain) }
func jump(chain string) part { return verdict("jump", expr.VerdictJump, chain) }
func notrack() part          { return part{"notrack", []expr.Any{&expr.Notrack{}}} }
func count(reason string) part {
	return part{"counter name " + reason, []expr.Any{&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: reason}}}
}

func resetTCP() part {
	return part{"reject with tcp reset", []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}}
}

func reject() part {
	return part{"reject", []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH,
		Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}}}
}

// masquerade gives packets the address of their outgoing device.
func masquerade() part { return part{"masquerade", []expr.Any{&expr.Masq{}}} }

// snat gives packets another source.
func (f family) snat(to netip.Addr) part {
	return part{fmt.Sprintf("snat %s to %s", f.word, to), []expr.Any{
		&expr.Immediate{Register: wide1, Data: to.AsSlice()},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(f.nfproto), RegAddrMin: wide1},
	}}
}

// choices is one of the maps in which choices of a family are.
func (f family) choices(n int) *set {
	key := nftables.TypeInteger
	key.Bytes = uint32(len(choiceKey{}) + 4)
	val := nftables.MustConcatSetType(f.kind, nftables.TypeInetService)
	return &set{name: bucketName(f, n), key: key, val: &val, interval: true}
}

// choose is the rule of a chain that translates what matches to one of some backends.
func (f family) choose(chain string, match []part, list []Backend, rotate bool) rule {
	modulus, parts := shares(list, rotate)
	kind, word := uint32(unix.NFT_NG_RANDOM), "random"
	if rotate && modulus != random {
		kind, word = unix.NFT_NG_INCREMENTAL, "inc"
	}
	text := make([]byte, 0, 64+48*len(parts))
	text = fmt.Appendf(text, "dnat %s to numgen %s mod %d map { ", f.word, word, modulus)
	for i, s := range parts {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = append(strconv.AppendUint(text, uint64(s.first), 10), '-')
		text = append(strconv.AppendUint(text, uint64(s.end-1), 10), " : "...)
		text = append(s.to.Addr().AppendTo(text), " . "...)
		text = strconv.AppendUint(text, uint64(s.to.Port()), 10)
	}
	r := join(append(match, part{text: string(append(text, " }"...))})...)
	sum := sha256.Sum256([]byte(chain + "\x00" + r.text))
	c := &choice{key: choiceKey(sum[:]), elements: make([]element, 0, 2*len(parts))}
	c.set = bucketName(f, int(sum[31])%buckets)
	at := func(n uint32) []byte {
		return binary.BigEndian.AppendUint32(append(make([]byte, 0, len(c.key)+4), c.key[:]...), n)
	}
	for _, s := range parts {
		to := append(append(make([]byte, 0, f.size+4), s.to.Addr().AsSlice()...), byte(s.to.Port()>>8),
			byte(s.to.Port()), 0, 0)
		c.elements = append(c.elements, element{key: at(s.first), val: to}, element{key: at(s.end), end: true})
	}
	port := uint32(narrow4)
	if f.size == 4 {
		port = narrow1
	}
	r.choice = c
	r.exprs = append(r.exprs,
		&expr.Immediate{Register: narrow, Data: c.key[:]},
		&expr.Numgen{Register: narrow2, Modulus: modulus, Type: kind},
		&expr.Byteorder{SourceRegister: narrow2, DestRegister: narrow2, Op: expr.ByteorderHton, Len: 4, Size: 4},
		&expr.Lookup{SourceRegister: narrow, SetName: c.set, DestRegister: wide1, IsDestRegSet: true},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(f.nfproto), RegAddrMin: wide1, RegProtoMin: port,
			Specified: true},
	)
	return r
}
