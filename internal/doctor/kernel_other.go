//go:build !linux

package doctor

import (
	"context"
	"math"
)

func kernel() []Finding { return nil }

func workerKernel() []Finding {
	return []Finding{bad(Fail, "kernel", pageNeeds, "run workers on Linux", "workers run on Linux only")}
}

func (Node) network() []Finding { return nil }

func module(string) bool { return false }

func fileSystem(string) (int64, string, error) { return math.MaxInt64, "", nil }

func (n Node) containers(context.Context) Finding {
	return bad(Note, "containers", pageNeeds, "run workers on Linux",
		"they need Linux: services with runtime: container wait for it")
}
