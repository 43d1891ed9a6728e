package pieces

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Whatever the sizes are in which bytes come and are read, they stay the same.
func TestPieces(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not for secrets
	// The content is taken from somewhere in these: to draw each byte would take most of the test.
	random := make([]byte, 1<<16)
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	sizes := []int{0, 1, 100, small, small + 1, Size - 1, Size, 3 * Size}
	for range 200 {
		var p Pieces
		var in, out []byte
		for range 50 {
			b := make([]byte, sizes[r.IntN(len(sizes))])
			copy(b, random[r.IntN(len(random)-len(b)+1):])
			in = append(in, b...)
			p.Add(b)
			clear(b) // it is the caller's again
			b = make([]byte, sizes[r.IntN(len(sizes))])
			out = append(out, b[:p.Read(b)]...)
		}
		rest := make([]byte, len(in))
		out = append(out, rest[:p.Read(rest)]...)
		if !bytes.Equal(in, out) || !p.Empty() {
			t.Fatalf("%d bytes of %d, or others", len(out), len(in))
		}
		held := 0
		for i := range 100 {
			p.Add([]byte{byte(i)})
			for _, b := range p.list {
				held = max(held, cap(b))
			}
		}
		if held > Size || len(p.list) > 2 {
			t.Fatalf("a hundred bytes hold %d pieces", len(p.list))
		}
	}
}
