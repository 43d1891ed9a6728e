package block

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/wire"
)

func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) wire.Block {
			return wire.Block{From: rapid.Uint32Range(0, 40).Draw(t, "from"), N: rapid.Uint32Range(0, 9).Draw(t, "n")}
		}), 0, 6)
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		union, rest := Union(a, b), Without(a, b)
		for n := range uint32(60) {
			if Has(union, n) != (Has(a, n) || Has(b, n)) {
				t.Fatalf("%d in the union %v", n, union)
			}
			if Has(rest, n) != (Has(a, n) && !Has(b, n)) {
				t.Fatalf("%d in the rest %v", n, rest)
			}
		}
		if Count(First(rest, 3)) != min(3, Count(rest)) {
			t.Fatalf("the first 3 of %v", rest)
		}
	})
	top := []wire.Block{{From: 1<<32 - 2, N: 2}}
	if !Has(top, 1<<32-1) || Count(Without(top, []wire.Block{{From: 1<<32 - 1, N: 1}})) != 1 {
		t.Error("the last numbers are lost")
	}
}
