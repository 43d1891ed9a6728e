package bed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim"
	"github.com/verge-edge/verge/internal/wire"
)

// Headers between the clients of a scene and its pods: how much work a request is, next
// to the mean, and which pod has answered.
const (
	workHeader = "Lab-Work"
	podHeader  = "Lab-Pod"
)

// synthetic is a pod that holds one of its slots for as long as the work of a request
// takes, and does nothing meanwhile: dozens of them fit on two processors.
type synthetic struct {
	name    string
	service time.Duration
	answer  []byte
	slots   chan struct{}
}

// ServeHTTP implements http.Handler.
func (p *synthetic) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	work, err := strconv.ParseFloat(r.Header.Get(workHeader), 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return // the client has left
	}
	select {
	case p.slots <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	t := time.NewTimer(time.Duration(work * float64(p.service)))
	<-t.C
	<-p.slots
	w.Header().Set(podHeader, p.name)
	w.Header()["Date"] = nil
	_, _ = w.Write(p.answer) // what is not written the client misses
}

// stage makes what a scene needs, and sends the first requests, for which connections
// are made. Name is that of the service, of which no other has the same at that time.
// The caller plays it, if he likes, and ends it.
func (f *Fleet) stage(ctx context.Context, name string, s Scene) (p *play, err error) {
	if s.Slots == 0 {
		return nil, fmt.Errorf("%s: the pods of a fleet have places, those of a site share processors", name)
	}
	var replicas []replica
	for i, p := range s.Pods {
		replicas = append(replicas, replica{p.Host, &synthetic{
			name: s.podName(i), service: p.Service, answer: make([]byte, max(1, s.Answer)), slots: make(chan struct{}, s.Slots),
		}, api.CPU(math.Round(s.Power[p.Host] * 1000))})
	}
	p = newPlay(&s, name)
	p.clients, p.knows = f.clients, func(host string) string { return f.knows(host, name) }
	if p.end, err = f.service(name, s.policy, wire.RequestRules{Concurrency: s.Slots, QueueMax: 10_000}, replicas); err != nil {
		return nil, err
	}
	for _, l := range s.Loads {
		if p.urls[l.Host], err = f.url(l.Host, name); err != nil {
			p.end()
			return nil, err
		}
	}
	if err := p.connect(ctx); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// connect sends the first requests, for which connections are made.
func (p *play) connect(ctx context.Context) error {
	for _, l := range p.s.Loads {
		for range max(l.Clients, len(p.s.Pods)) {
			p.all.Go(func() { p.first(ctx, l.Host) })
		}
	}
	p.all.Wait()
	if p.failed != nil {
		return fmt.Errorf("the first requests of %s: %w", p.name, p.failed)
	}
	return nil
}

// first sends a request for which a connection is made. On a busy machine that may take
// longer than routers wait: it is tried again.
func (p *play) first(ctx context.Context, host string) {
	const tries = 5
	for k := range tries {
		_, err := p.send(ctx, host, 1)
		if err == nil {
			return
		}
		if k == tries-1 || experiment.Pause(ctx, time.Second) != nil {
			p.mu.Lock()
			p.failed = err
			p.mu.Unlock()
			return
		}
	}
}

// run plays it.
func (p *play) run(ctx context.Context) (*sim.Stats, error) {
	// Some time for those who send to get ready.
	p.begin = time.Now().Add(20 * time.Millisecond)
	for _, l := range p.s.Loads {
		if l.Clients > 0 {
			p.closed(ctx, l)
		} else {
			p.open(ctx, l)
		}
	}
	p.all.Wait()
	if err := errors.Join(ctx.Err(), p.failed); err != nil {
		return nil, fmt.Errorf("%d requests of %s failed, the first of them: %w\n%s", p.failures, p.name, err, p.knows(p.s.Loads[0].Host))
	}
	if len(p.stats.Times) == 0 {
		return nil, fmt.Errorf("no request of %s was answered in time", p.name)
	}
	return p.stats, nil
}

// play is a scene while it is played.
type play struct {
	s    *Scene
	name string
	end  func()
	// clients at each host, and where they send requests; to is for whom, "" for whom the URL says.
	clients map[string]*http.Client
	urls    map[string]string
	to      string
	// knows is what the router of a host knows, for an error.
	knows func(host string) string
	body  []byte
	begin time.Time
	all   sync.WaitGroup

	mu       sync.Mutex // guards below
	stats    *sim.Stats
	answers  []Answer
	failed   error // the first that did
	failures int
}

// closed lets the clients of a load work. The works are those of virtual time, in the
// order in which clients need them.
func (p *play) closed(ctx context.Context, l SceneLoad) {
	var mu sync.Mutex
	works := sim.New(p.s.Seed).Rand("work " + l.Host)
	starts := sim.New(p.s.Seed).Rand("start " + l.Host)
	for range l.Clients {
		at := p.begin.Add(time.Duration(starts.Int64N(int64(10 * time.Millisecond))))
		p.all.Go(func() {
			if experiment.Pause(ctx, time.Until(at)) != nil {
				return
			}
			for time.Since(p.begin) < p.s.Span && ctx.Err() == nil {
				mu.Lock()
				work := p.s.Law(works)
				mu.Unlock()
				if !p.ask(ctx, l.Host, arrival{time.Since(p.begin), work}, p.s.Span) {
					return
				}
			}
		})
	}
}

// open sends the requests of a load when they are due.
func (p *play) open(ctx context.Context, l SceneLoad) {
	due := p.s.arrivals(l)
	p.all.Go(func() {
		for _, a := range due {
			if experiment.Pause(ctx, time.Until(p.begin.Add(a.at))) != nil {
				return
			}
			p.all.Go(func() { p.ask(ctx, l.Host, a, math.MaxInt64) })
		}
	})
}

// ask sends a request and notes what it took, if it ended until the given time.
func (p *play) ask(ctx context.Context, host string, a arrival, until time.Duration) bool {
	pod, err := p.send(ctx, host, a.work)
	ended := time.Since(p.begin)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failures++
		if p.failed == nil {
			p.failed = err
		}
		return false
	}
	if a.at >= p.stats.From && ended <= until {
		p.stats.Ends[sim.Answered]++
		p.stats.Times = append(p.stats.Times, (ended - a.at).Seconds())
		p.stats.By[pod]++
		p.stats.Done = ended
		p.answers = append(p.answers, Answer{a.at, ended - a.at})
	}
	return true
}

func (p *play) send(ctx context.Context, host string, work float64) (pod string, err error) {
	method := http.MethodGet
	if len(p.body) > 0 {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, p.urls[host], bytes.NewReader(p.body))
	if err != nil {
		return "", err
	}
	req.Host = p.to
	req.Header.Set(workHeader, strconv.FormatFloat(work, 'g', -1, 64))
	resp, err := p.clients[host].Do(req)
	if err != nil {
		return "", err
	}
	said, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, said)
	}
	return resp.Header.Get(podHeader), err
}

func newPlay(s *Scene, name string) *play {
	return &play{
		s: s, name: name, body: make([]byte, s.Body), urls: map[string]string{}, stats: &sim.Stats{From: s.Warm, By: map[string]int{}},
		knows: func(string) string { return "" }, end: func() {},
	}
}

// playAll plays scenes at the same time, each with a service and pods of its own: what
// else the machine does hits all of them alike.
func (f *Fleet) playAll(ctx context.Context, scenes []Scene) ([]*sim.Stats, error) {
	plays, stats, errs := make([]*play, len(scenes)), make([]*sim.Stats, len(scenes)), make([]error, len(scenes))
	defer func() {
		for _, p := range plays {
			if p != nil {
				p.end()
			}
		}
	}()
	// A request is handed over some ten times, and each time it would wait for what
	// else the machine does.
	defer hasten()()
	var all sync.WaitGroup
	for i, s := range scenes {
		all.Go(func() { plays[i], errs[i] = f.stage(ctx, fmt.Sprintf("s%d-%s", i, s.policy.Name), s) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for i, p := range plays {
		all.Go(func() { stats[i], errs[i] = p.run(ctx) })
	}
	all.Wait()
	return stats, errors.Join(errs...)
}

// hasten lets the threads of this process, and those that come, go before those of
// others until lower is called, where the kernel permits it. It is not real-time
// priority: threads that come would not have that, and may hold what the others wait
// for.
func hasten() (lower func()) {
	set := func(nice int) {
		entries, _ := os.ReadDir("/proc/self/task") // where it does not say, all is as it was
		for _, e := range entries {
			if id, err := strconv.Atoi(e.Name()); err == nil {
				_ = unix.Setpriority(unix.PRIO_PROCESS, id, nice) // it may have ended
			}
		}
	}
	before, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return func() {}
	}
	set(hastened)
	return func() { set(20 - before) } // the system call says 20 less than it
}

// hastened is how nice this process is while it measures; -20 is the least.
const hastened = -15
