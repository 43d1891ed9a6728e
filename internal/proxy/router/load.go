package router

import (
	"slices"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/policy/eject"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
)

// Request counts one in and returns the timeout of the service and its objective, 0 for
// none.
func (s *Service) Request(asked chan<- struct{}) (timeout, slo time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget = s.budget.Request()
	s.demand.came(s.from.Requests.Count(), asked)
	return s.from.Requests.Timeout.Std(), s.from.Requests.SLO.Std()
}

// Over counts one out, and how large it and its answer were.
func (s *Service) Over(refused bool, body, answer int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes.body.Add(body)
	s.sizes.answer.Add(answer)
	s.demand.open--
	if refused {
		s.demand.refused++
	}
}

// MayRetry takes one retry from the budget, or says that there is none.
func (s *Service) MayRetry() (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget, ok = s.budget.Retry()
	if ok {
		s.retries++
	} else {
		s.retriesRefused++
	}
	return ok
}

// sleeps notes whether an endpoint of this worker does.
func (s *Service) sleeps(e *Endpoint, asleep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loadLocked(e).Asleep = asleep
}

// Began counts a request in the load of an endpoint.
func (s *Service) Began(e *Endpoint, now time.Time) route.Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loadLocked(e).Began(now)
}

// Took teaches how long an endpoint needs for an answer, from when it was asked to the
// head, without the time in which the request's body was waited for there.
func (s *Service) Took(e *Endpoint, sent route.Sent, now time.Time, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.index >= 0 {
		took -= s.view.Endpoints[e.index].Network(0)
	}
	s.loadLocked(e).Answered(now, sent, took)
}

// Ended takes a request out of the load of an endpoint; heard says whether AnsweredBy was called for
// it.
func (s *Service) Ended(e *Endpoint, heard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loadLocked(e).Ended(heard)
}

// loadLocked is the load of an endpoint: in the view, as long as it is there.
func (s *Service) loadLocked(e *Endpoint) *route.Load {
	if e.index >= 0 {
		return &s.view.Endpoints[e.index].Load
	}
	return &e.last
}

// AnsweredBy learns from the head of an answer. It says whether the endpoint is out
// now and was not before.
func (s *Service) AnsweredBy(e *Endpoint, now time.Time, failed bool, report *orca.Report) (out bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.recent.Add(now)
	l := s.loadLocked(e)
	l.Heard(now)
	l.Asleep = false
	if failed {
		l.Failed = now
	}
	s.reportedLocked(e, now, report)
	was := e.outlier
	var ejects bool
	if e.outlier, ejects = e.outlier.Answered(now, failed); !ejects || e.index < 0 {
		return false
	}
	if !eject.MayEject(len(s.endpoints), s.outLocked()) {
		e.outlier = was // it is tried again: one more failure asks again
		return false
	}
	s.outliers++
	e.out = true
	until, _ := e.outlier.Out(now)
	if s.nextIn.IsZero() || until.Before(s.nextIn) {
		s.nextIn = until
	}
	e.why = strconv.Itoa(eject.OutlierAfter) + " answers in a row were errors"
	s.seenLocked(e)
	return true
}

// reportedLocked learns from a load report.
func (s *Service) reportedLocked(e *Endpoint, now time.Time, report *orca.Report) {
	if r, ok := httpmsg.QueueMetrics(report); ok {
		places := s.from.Requests.Places()
		if e.capacity.Observe(r, places, now) {
			l := s.loadLocked(e)
			l.Report(now, r.Queue, r.InFlight)
			l.Exec, l.Concurrency = r.Work, places
			l.Capacity, _ = e.capacity.RPS()
			e.report = r
		}
	}
}

// outLocked are the endpoints that are ejected.
func (s *Service) outLocked() (n int) {
	for i := range s.view.Endpoints {
		if s.view.Endpoints[i].Ejected {
			n++
		}
	}
	return n
}

// seenLocked puts the health of an endpoint into the view.
func (s *Service) seenLocked(e *Endpoint) {
	if e.index < 0 {
		return
	}
	v := s.view.Endpoints[e.index]
	v.Ejected = e.health.Ejected() || e.out
	s.view.Set(e.index, v)
}

// returnLocked takes back the outliers whose time is over.
func (s *Service) returnLocked(now time.Time) {
	if s.nextIn.IsZero() || now.Before(s.nextIn) {
		return
	}
	s.nextIn = time.Time{}
	for _, e := range s.endpoints {
		if !e.out {
			continue
		}
		if until, out := e.outlier.Out(now); out {
			if s.nextIn.IsZero() || until.Before(s.nextIn) {
				s.nextIn = until
			}
			continue
		}
		e.out = false
		s.seenLocked(e)
	}
}

// pickFor is pick for a request, which counts in the load of the endpoint from here
// on. Body is that of the call, back how many bytes of an answer are to be expected.
func (s *Service) pickFor(now time.Time, d Distances, tried []string, body int64) (e *Endpoint, sent route.Sent, back int64, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookLocked(d, now)
	s.returnLocked(now)
	s.agedLocked(now)
	there, back := s.sizes.expect(body)
	i, ok := s.policy.Pick(s.view, route.Request{Tried: tried, Bytes: there, Answer: back, Now: now})
	if !ok {
		return nil, sent, 0, false
	}
	e = s.endpoints[i]
	sent = s.view.Endpoints[i].Load.Began(now)
	return e, sent, back, s.moreLocked(i, tried)
}

// moreLocked says whether there is another endpoint than i that was not tried.
func (s *Service) moreLocked(i int, tried []string) bool {
	for k := range s.view.Endpoints {
		if v := &s.view.Endpoints[k]; k != i && v.Ready && !slices.Contains(tried, v.ID) {
			return true
		}
	}
	return false
}

// WaitEstimate is how long a queue of the service takes to become empty, as far as that
// is known: the shortest of them.
func (s *Service) WaitEstimate() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := time.Duration(0)
	for _, e := range s.endpoints {
		if rps, ok := e.capacity.RPS(); ok && rps > 0 {
			if w := time.Duration(float64(e.report.Queue+1) / rps * float64(time.Second)); least == 0 || w < least {
				least = w
			}
		}
	}
	return least
}

// Lacking is why there is none, as far as that is known, to be put behind that.
func (s *Service) Lacking() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from.Lacks == "" || len(s.endpoints) > 0 {
		return ""
	}
	return ": " + s.from.Lacks
}

// Count adds one to a counter of the service that is guarded by its lock.
func (s *Service) Count(n *uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}

// Admits says whether one of the endpoints that the next request may go to can answer
// it within left, and if not, when one could.
func (s *Service) Admits(r *Services, left time.Duration, now time.Time) (ok bool, retry time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returnLocked(now)
	s.usable = s.view.Usable(s.usable[:0])
	places := s.from.Requests.Places()
	return scale.Admit(left, len(s.usable), func(i int) scale.Load {
		e := s.endpoints[s.usable[i]]
		load := s.loadLocked(e)
		l := scale.Load{Ahead: int(load.There(now)), Concurrency: places, Exec: load.Exec}
		if e.Local {
			// Whoever asks it is in its queue.
			if x := r.Local.Get(e.Instance); x != nil {
				st := x.Queue.State()
				l.Ahead = max(load.InFlight, st.Waiting+st.Running)
			}
		}
		if rps, known := e.capacity.RPS(); known {
			l.RPS = rps
		}
		if load.Asleep {
			l.Start = load.StartUp
		}
		return l
	})
}

// Reported learns from a load report.
func (s *Service) Reported(e *Endpoint, report *orca.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportedLocked(e, time.Now(), report)
}

// ByRequest says whether a port is routed by request.
func (s *Service) ByRequest(port string) bool {
	if s.limits.Load() == nil {
		return false // no port is
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.from.ByRequestAt(port)
}

// SpeaksH2 says whether instances speak HTTP/2 on a port.
func (s *Service) SpeaksH2(port string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.ports {
		if PortName(s.ports[i]) == port {
			return s.ports[i].Protocol == "grpc"
		}
	}
	return false
}
