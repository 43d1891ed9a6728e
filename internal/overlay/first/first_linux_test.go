package first

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func packet4(proto byte, payload ...byte) []byte {
	p := make([]byte, 20)
	p[0], p[8], p[9] = 0x45, 64, proto
	copy(p[12:], []byte{10, 128, 7, 2})
	copy(p[16:], []byte{10, 30, 0, 9})
	return append(p, payload...)
}

func packet6(next byte, payload ...byte) []byte {
	p := make([]byte, 40)
	p[0], p[6], p[7] = 0x60, next, 64
	from, to := netip.MustParseAddr("fd00::2").As16(), netip.MustParseAddr("fd00:1::9").As16()
	copy(p[8:], from[:])
	copy(p[24:], to[:])
	return append(p, payload...)
}

func TestDestination(t *testing.T) {
	for want, p := range map[string][]byte{"10.30.0.9": packet4(6), "fd00:1::9": packet6(6)} {
		if a, ok := destination(p); !ok || a.String() != want {
			t.Errorf("%s: %s %v", want, a, ok)
		}
	}
}

func TestNobody(t *testing.T) {
	tcp := make([]byte, 20)
	for name, p := range map[string][]byte{"ipv4": packet4(6, tcp...), "ipv6": packet6(6, tcp...),
		"ping": packet4(1, 8, 0, 0, 0, 0, 0, 0, 0), "ping6": packet6(58, 128, 0, 0, 0, 0, 0, 0, 0)} {
		out := nobody(p)
		if out == nil {
			t.Errorf("%s: no answer", name)
			continue
		}
		want := netip.MustParseAddr("10.128.7.2")
		if p[0]>>4 == 6 {
			want = netip.MustParseAddr("fd00::2")
		}
		if to, ok := destination(out); !ok || to != want {
			t.Errorf("%s: answered to %s", name, to)
		}
		if p[0]>>4 == 4 && (checksum(0, out[:20]) != 0 || checksum(0, out[20:]) != 0 ||
			int(binary.BigEndian.Uint16(out[2:])) != len(out)) {
			t.Errorf("%s: sums or length are wrong", name)
		}
	}
	for name, p := range map[string][]byte{
		"an error":  packet4(1, 3, 0, 0, 0, 0, 0, 0, 0),
		"an error6": packet6(58, 1, 0, 0, 0, 0, 0, 0, 0),
		"short":     packet4(6, 1, 2),
	} {
		if nobody(p) != nil {
			t.Errorf("%s is answered", name)
		}
	}
}

// Whatever comes, nothing breaks.
func TestAnyPacket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Byte(), 0, maxPacket).Draw(t, "packet")
		if len(p) > 0 && rapid.Bool().Draw(t, "v6") {
			p[0] = 0x60
		} else if len(p) > 0 {
			p[0] = 0x40 | p[0]&15
		}
		if _, ok := destination(p); ok {
			if out := nobody(p); len(out) > maxPacket {
				t.Fatalf("answer of %d bytes", len(out))
			}
		}
	})
}
