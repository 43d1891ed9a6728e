package process

import (
	"testing"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/cgroup"
	"github.com/verge-edge/verge/internal/runtime/runtimetest"
)

var suites = []runtimetest.Suite{
	{Name: "detected", New: func(base string) (runtime.Driver, error) {
		return New(Options{Base: base}), nil
	}},
	{Name: "plain", New: func(base string) (runtime.Driver, error) {
		return New(Options{Base: base, NoCgroups: true}), nil
	}},
	{Name: "v2", New: func(base string) (runtime.Driver, error) {
		return New(Options{Base: base, groups: cgroup.DetectV2(base)}), nil
	}},
}

func TestMain(m *testing.M) { runtimetest.Main(m, suites...) }

func TestConformance(t *testing.T) {
	for _, s := range suites {
		t.Run(s.Name, s.Run)
	}
}
