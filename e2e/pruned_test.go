//go:build grpcnotrace

package e2e

import (
	"debug/elf"
	"slices"
	"testing"
)

// Nothing in verge calls methods by names that are only known when it runs, as text/template
// does: the linker would have to keep every method of every type, 6.7 MB. Where this fails,
// go build -tags grpcnotrace -ldflags -dumpdep ./cmd/verge says who does: what leads to
// <ReflectMethod>.
func TestMethodsArePruned(t *testing.T) {
	program, err := elf.Open(programs.verge)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	symbols, err := program.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
	}
	if !has("main.main") {
		t.Fatal("the program has no symbols")
	}
	const uncalled = "github.com/spf13/cobra.(*Command).SetUsageTemplate" // an exported method of a type that is used
	if has(uncalled) {
		t.Errorf("%s is linked, which nothing calls; text/template is linked: %v", uncalled, has("text/template.(*state).evalField"))
	}
}
