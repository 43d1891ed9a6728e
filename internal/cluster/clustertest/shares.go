package clustertest

import (
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// SSD are the labels of a worker with such a disk.
var SSD = map[string]string{"disk": "ssd"}

// Job delegates a job of n indexes.
func (s *Sim) Job(n int, change func(*api.Service)) {
	s.Share("task", n, func(v *api.Service) {
		v.Ports, v.Restart.Policy = nil, "never"
		retries, keep := 2, api.Duration(time.Hour)
		v.Job = &api.Job{Completions: n, Parallelism: 2, Retries: &retries, Keep: &keep}
		if change != nil {
			change(v)
		}
	})
}

// Rank gives a service a priority and a demand of n millicores.
func Rank(priority int, n int64) func(*api.Service) {
	return func(v *api.Service) { v.Priority, v.Resources.CPU = priority, api.CPU(n) }
}

// Namespace puts a service into a namespace with a standing, as the root would.
func (s *Sim) Namespace(svc, namespace string, standing wire.Standing) {
	next := *s.Model.FromRoot["app."+svc]
	next.Namespace, next.Standing = namespace, standing
	next.AppNumber = 1000 + uint32(namespace[0]) // each namespace has another application of that name
	s.Model.FromRoot["app."+svc] = &next
	reconcile.Effect(s.Model)
	s.Store(state.KeyShare+"app."+svc, &next)
}

// Program gives a service another program, and makes the change more.
func Program(cmd string, more func(*api.Service)) func(*api.Service) {
	return func(v *api.Service) {
		v.Command = []string{cmd}
		if more != nil {
			more(v)
		}
	}
}

// Programs counts the ready instances of a service by their program.
func (s *Sim) Programs(svc string) map[string]int {
	out := map[string]int{}
	for id, i := range s.Model.Insts {
		if i.Service == svc && i.State == wire.Running && i.Ready {
			out[s.Model.Orders[i.Worker+"."+id].Spec.Command[0]]++
		}
	}
	return out
}
