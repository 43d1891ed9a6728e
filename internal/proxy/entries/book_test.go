package entries

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// Two books that see the same services in any order give unique numbers, keep
// them over save and load, and forget only what is not in use.
func TestBook(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, strconv.Itoa(n))
		b, err := LoadPorts(path)
		if err != nil {
			t.Fatal(err)
		}
		b.count = 8
		foreign := map[int]bool{}
		for _, p := range rapid.SliceOfN(rapid.IntRange(b.first, b.first+7), 0, 2).Draw(t, "taken by others") {
			foreign[p] = true
		}
		try := func(p int) error {
			if foreign[p] {
				return syscall.EADDRINUSE
			}
			return nil
		}
		used := map[Key]bool{}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			k := Key{App: "a", Service: fmt.Sprint(rapid.IntRange(0, 11).Draw(t, "service")), Port: "p"}
			if used[k] && rapid.Bool().Draw(t, "release") {
				delete(used, k)
				continue
			}
			before := len(used)
			number, known := b.Get(k)
			if !known {
				if err := b.allocate(k, func(k Key) bool { return used[k] }, try); err != nil {
					if before+len(foreign) < b.count && len(b.Records()) < b.count-len(foreign) {
						t.Fatalf("%d in use of %d: %v", before, b.count, err)
					}
					continue
				}
				number, _ = b.Get(k)
			}
			used[k] = true
			if foreign[number] || number < b.first || number >= b.first+b.count {
				t.Fatalf("number %d", number)
			}
		}
		for k := range used {
			number, _ := b.Get(k)
			if of, _ := b.At(number); of != k {
				t.Fatalf("%v lost its number", k)
			}
		}
		if err := b.Save(); err != nil {
			t.Fatal(err)
		}
		again, err := LoadPorts(path)
		if err != nil || !slices.Equal(again.Records(), b.Records()) {
			t.Fatalf("%v became %v, %v", b.Records(), again.Records(), err)
		}
	})
}
