package router

import (
	"strings"

	"github.com/verge-edge/verge/internal/proxy/queue"
	"github.com/verge-edge/verge/internal/wire"
)

// limits of the queue of an instance of this worker. What is routed by connection has
// none: only a gateway asks it by request. counted: how it answers is to be counted.
func (r *Services) limits(id wire.InstanceID) (_ queue.Limits, counted bool) {
	key := id[:max(0, strings.LastIndexByte(id, '.'))]
	s := r.table.Load().services[key]
	if s == nil {
		return queue.Limits{}, false
	}
	if l := s.limits.Load(); l != nil {
		return *l, s.counted.Load()
	}
	return queue.Limits{}, s.counted.Load()
}

// limitsOf the queues in front of the instances of a service; nil: none.
func limitsOf(rt *wire.Route) *queue.Limits {
	for i := range rt.Ports {
		if rt.ByRequest(&rt.Ports[i]) {
			return &queue.Limits{Places: rt.Requests.Places(), Waiting: rt.Requests.MayWait()}
		}
	}
	return nil
}

// Places are how many requests an instance of a service may work on at a time; 0: any
// number, or the service is not routed by request.
func (r *Services) Places(id wire.InstanceID) int {
	limits, _ := r.limits(id)
	return limits.Places
}
