package quota

import (
	"fmt"
	"math"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// Of is what an application asks for.
func Of(spec *api.Application) wire.Quota {
	u := wire.Quota{Applications: 1}
	for _, s := range spec.Services {
		n := max(s.Replicas.Min, s.Replicas.Max)
		u = Add(u, wire.Quota{
			CPU: times(s.Resources.CPU, n), Memory: times(s.Resources.Memory, n), Disk: times(s.Resources.Disk, n), Instances: n,
		})
	}
	return u
}

// Add adds two uses. What does not fit into a number stays at the largest.
func Add(a, b wire.Quota) wire.Quota {
	return wire.Quota{
		CPU: plus(a.CPU, b.CPU), Memory: plus(a.Memory, b.Memory), Disk: plus(a.Disk, b.Disk), Objects: plus(a.Objects, b.Objects),
		Instances: plus(a.Instances, b.Instances), Applications: plus(a.Applications, b.Applications),
	}
}

func plus[T ~int | ~int64](a, b T) T {
	if int64(a) > math.MaxInt64-int64(b) {
		return T(math.MaxInt64)
	}
	return a + b
}

func times[T ~int64](a T, n int) T {
	if n > 0 && int64(a) > math.MaxInt64/int64(n) {
		return T(math.MaxInt64)
	}
	return a * T(n)
}

// Exceeded says in words which bounds of q an application passes whose use changes
// from before to after (zero: there was none) while others use used; "" if none.
func Exceeded(q, others, before, after wire.Quota) string {
	was, is := Add(others, before), Add(others, after)
	var over []string
	check := func(what string, bound, was, is int64, text func(int64) string) {
		if bound > 0 && is > bound && is > was {
			over = append(over, fmt.Sprintf("%s: %s allowed, %s used, %s asked for, %s too much", what, text(bound), text(was), text(is), text(is-bound)))
		}
	}
	cpu := func(n int64) string { return api.CPU(n).String() }
	bytes := func(n int64) string { return api.Bytes(n).String() }
	count := func(n int64) string { return fmt.Sprint(n) }
	check("cpu", int64(q.CPU), int64(was.CPU), int64(is.CPU), cpu)
	check("memory", int64(q.Memory), int64(was.Memory), int64(is.Memory), bytes)
	check("disk", int64(q.Disk), int64(was.Disk), int64(is.Disk), bytes)
	check("instances", int64(q.Instances), int64(was.Instances), int64(is.Instances), count)
	check("applications", int64(q.Applications), int64(was.Applications), int64(is.Applications), count)
	return strings.Join(over, "; ")
}

// Over says in words which bounds of q are passed by what is used; "" if none is.
func Over(q, used wire.Quota) string {
	var over []string
	check := func(what string, bound, is int64, text func(int64) string) {
		if bound > 0 && is > bound {
			over = append(over, fmt.Sprintf("%s: %s allowed, %s used", what, text(bound), text(is)))
		}
	}
	check("cpu", int64(q.CPU), int64(used.CPU), func(n int64) string { return api.CPU(n).String() })
	bytes := func(n int64) string { return api.Bytes(n).String() }
	check("memory", int64(q.Memory), int64(used.Memory), bytes)
	check("disk", int64(q.Disk), int64(used.Disk), bytes)
	check("objects", int64(q.Objects), int64(used.Objects), bytes)
	count := func(n int64) string { return fmt.Sprint(n) }
	check("instances", int64(q.Instances), int64(used.Instances), count)
	check("applications", int64(q.Applications), int64(used.Applications), count)
	return strings.Join(over, "; ")
}

// More is what n instances that need each so much ask for beyond what m that need
// base do. What is less of something is none.
func More(n int, each api.Resources, m int, base api.Resources) wire.Quota {
	over := func(a, b int64) int64 { return max(0, max(0, a)-max(0, b)) }
	n = max(0, n)
	return wire.Quota{
		CPU:       api.CPU(over(int64(times(max(0, each.CPU), n)), int64(times(base.CPU, m)))),
		Memory:    api.Bytes(over(int64(times(max(0, each.Memory), n)), int64(times(base.Memory, m)))),
		Disk:      api.Bytes(over(int64(times(max(0, each.Disk), n)), int64(times(base.Disk, m)))),
		Instances: max(0, n-m),
	}
}
