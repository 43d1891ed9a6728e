package place

import (
	"slices"
	"testing"

	"github.com/verge-edge/verge/api/schema"
)

// Descriptors can name every scheduler, and no other.
func TestDescriptorsNameAllSchedulers(t *testing.T) {
	t.Parallel()
	var named []string
	for _, f := range schema.FieldSpecs() {
		if f.Path != "services.*.scheduler" {
			continue
		}
		for _, v := range f.Values {
			named = append(named, v.Value)
		}
	}
	want := append(Schedulers(), "plugin")
	slices.Sort(named)
	slices.Sort(want)
	if !slices.Equal(named, want) {
		t.Errorf("descriptors name %q, there are %q: see api/schema and scorers", named, want)
	}
}
