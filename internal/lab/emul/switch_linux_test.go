package emul

import "testing"

func TestPortOf(t *testing.T) {
	v4 := make([]byte, 40)
	v4[0], v4[9] = 0x45, 6
	a := Address4(300).As4()
	copy(v4[16:], a[:])
	v4[32] = 5 << 4
	if port, data, ok := portOf(v4); port != 300 || data || !ok {
		t.Errorf("an empty segment: %d, %v, %v", port, data, ok)
	}
	if port, data, ok := portOf(append(v4, 1)); port != 300 || !data || !ok {
		t.Errorf("a segment with a byte: %d, %v, %v", port, data, ok)
	}
	v6 := make([]byte, 48)
	v6[0], v6[6] = 0x60, 17
	b := Address6(7).As16()
	copy(v6[24:], b[:])
	if port, data, ok := portOf(v6); port != 7 || !data || !ok {
		t.Errorf("a datagram: %d, %v, %v", port, data, ok)
	}
	for _, b := range [][]byte{nil, {0x45}, make([]byte, 60), v4[:19], v6[:39]} {
		if _, _, ok := portOf(b); ok {
			t.Errorf("%d bytes have a destination", len(b))
		}
	}
}
