package throughput_test

import (
	"math"
	"testing"

	"github.com/verge-edge/verge/internal/policy/route/throughput"
)

func TestEstimates(t *testing.T) {
	nodes := []throughput.Profiled{
		{"4/amd64", 400, 4000}, {"4/amd64", 600, 4000}, {"2/arm64", 100, 2000},
		{"4/amd64", 0, 4000}, {"2/arm64", 0, 2000}, {"8/amd64", 0, 8000}, {"", 0, 1000}, {"odd", 0, 0},
	}
	want := []throughput.Estimate{
		{400, throughput.ByProfile}, {600, throughput.ByProfile}, {100, throughput.ByProfile},
		{500, throughput.ByKind}, {100, throughput.ByKind}, {880, throughput.ByProcessors}, {110, throughput.ByProcessors}, {0, throughput.ByNothing},
	}
	got := throughput.Estimates(nodes)
	for i := range want {
		if got[i].From != want[i].From || math.Abs(got[i].Serves-want[i].Serves) > 1e-9 {
			t.Errorf("%d: %+v, want %+v", i, got[i], want[i])
		}
	}
}
