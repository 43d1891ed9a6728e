package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// maxNudges is how many nudges wait: each may tell of another change.
const maxNudges = 16

// maxAsks is how many questions from above are worked on at once. Some are held
// (logs -f, a session's output), and leave room for others.
const maxAsks = 64

// Subjects of one peer.
type Subjects struct {
	Report, Fetch, Renew, Nudge, Ask string
	// Gate is where hooks of the tier above are asked; "": it has none for this peer.
	Gate string
}

// WorkerSubjects are what worker id may use at its cluster (LOCAL account).
func WorkerSubjects(id string) Subjects {
	return Subjects{Report: "w." + id + ".report", Fetch: "w." + id + ".fetch", Renew: "w." + id + ".renew", Nudge: "o." + id + ".nudge", Ask: "o." + id + ".ask"}
}

// DemandSubject is where worker id says what is asked for there; "*" is all of them.
func DemandSubject(id string) string { return "w." + id + ".demand" }

// ClusterSubjects are what a cluster and its root use in the account they share.
func ClusterSubjects() Subjects {
	return Subjects{Report: "up.report", Fetch: "up.fetch", Renew: "up.renew", Nudge: "down.nudge", Ask: "down.ask", Gate: "up.gate"}
}

// DesiredStore is where a lower side keeps its desired state.
type DesiredStore interface {
	// Have is the revision that is stored.
	Have() wire.Rev
	// Proof is what the upper side gave with it; nil where it gave none.
	Proof() []byte
	// Take stores changes that lead to `to`, durably, before it returns; full:
	// they are everything, all other keys are to be dropped. The proof of `to` is
	// stored with it.
	Take(ctx context.Context, full bool, changes []wire.Change, to wire.Rev, proof []byte) error
}

// Lower is the lower side of an exchange.
type Lower struct {
	Conn     bus.Conn
	Subjects Subjects
	Desired  DesiredStore
	Observed Source
	// Changed wakes the exchange when Observed or the status has changed.
	Changed <-chan struct{}
	// Status returns what to say about ourselves now, nil for nothing new; full
	// asks for all of it.
	Status func(full bool) (json.RawMessage, error)
	// Uses, if set, returns the services that are used here, nil where nothing is new;
	// full asks for all the same.
	Uses func(full bool) *wire.Uses
	// OnFilter, if set, is called for each answered report with whether the upper side
	// sends routes of used services only. It must not block.
	OnFilter func(filters bool)
	// OnGateway, if set, is told of each answered report whether the upper side refuses
	// us as a gateway. It must not block.
	OnGateway func(refused bool)
	// OnReply, if set, is told the outcome of every exchange.
	OnReply func(err error)
	// OnAck, if set, is told what the upper side has of Observed, after every
	// exchange. It must not block.
	OnAck func(to wire.Rev)
	// OnWas, if set, is told what the upper side had of Observed before the last report
	// replaced it, where that was of another era. It must not block.
	OnWas func(was wire.Rev)
	// Partial, if set, says that what is here of Desired lacks parts that its version did not
	// know when it was fetched. All of it is fetched again.
	Partial func() bool
	// Renew, if set, is called when the upper side asks for a renewal. It must not
	// block.
	Renew func()
	// Min and Max are the bounds of λ: Min after a change, doubling to Max.
	Min, Max time.Duration
	// Beats is how many reports in a row may be one-way while nothing happens: the server
	// confirms them, the upper side is silent unless there is something to say, and λ is
	// at its longest. They cost it two thirds of one that is answered. 0: all are answered.
	Beats int
	// Timeout of one request; 0 is 5 s.
	Timeout time.Duration
	// Farewell announces the end of Run with a last report.
	Farewell bool
	// Answer serves questions from above; nil answers that there is nothing.
	Answer func(ctx context.Context, q rpc.Ask) (any, error)
	Log    *slog.Logger

	bulk bulk
}

// state of a running Lower, touched only by the goroutine of Run.
type lowerRun struct {
	*Lower
	acked      wire.Rev
	needStatus bool
	lambda     time.Duration
	longest    time.Duration // Max, or what the upper side asked for
	failures   int
	// beats are the reports that may still be one-way; sending is one that is on its way, nil
	// for none.
	beats   int
	sending *oneWay
}

// Run exchanges until ctx is done. It returns ctx's error, or why the
// subscriptions could not be made.
func (l *Lower) Run(ctx context.Context) error {
	nudges := make(chan wire.Down, maxNudges)
	stopNudge, err := l.Conn.Subscribe(l.Subjects.Nudge, func(_ context.Context, m bus.Msg) {
		var d wire.Down
		if err := json.Unmarshal(m.Data, &d); err != nil {
			d = wire.Down{} // it is a nudge, whatever else it may be
		}
		select {
		case nudges <- d:
		default: // what it says is fetched
		}
	})
	if err != nil {
		return fmt.Errorf("listening for nudges on %s: %w", l.Subjects.Nudge, err)
	}
	defer stopNudge()
	// Questions may be held (logs -f) and must not queue behind each other.
	var asks sync.WaitGroup
	defer asks.Wait()
	slots := make(chan struct{}, maxAsks)
	stopAsk, err := l.Conn.Subscribe(l.Subjects.Ask, func(ctx context.Context, m bus.Msg) {
		select {
		case slots <- struct{}{}:
			asks.Go(func() { l.answer(ctx, m); <-slots })
		default:
			l.respond(ctx, m, refusal(wire.Problemf(503, "busy", "try again in a moment", "too many questions at once", "%d are being answered", maxAsks)))
		}
	})
	if err != nil {
		return fmt.Errorf("listening for questions on %s: %w", l.Subjects.Ask, err)
	}
	defer stopAsk()

	r := &lowerRun{Lower: l, needStatus: true, lambda: l.Min, longest: l.Max}
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer r.giveUp()
	settle := func(err error) {
		if l.OnReply != nil && ctx.Err() == nil {
			l.OnReply(err)
		}
		timer.Reset(r.pause(err))
	}
	for {
		_, linkChanged := l.Conn.Connected()
		select {
		case <-r.sent():
			settle(r.arrived())
			continue
		case <-ctx.Done():
			r.giveUp()
			if l.Farewell {
				r.leave(ctx)
			}
			return ctx.Err()
		case d := <-nudges:
			r.lambda, r.beats = l.Min, 0
			if r.hear(ctx, d, nudges) {
				// Who sent it need not answer: the report says that it has come.
				r.beats = min(l.Beats, 1)
			}
		case <-l.Changed:
			r.lambda = l.Min
		case <-linkChanged:
			if ok, _ := l.Conn.Connected(); !ok {
				continue // nothing to say it to; the next change or timer tries
			}
			// Whoever is there now may not be ready for us yet: try again soon.
			r.needStatus, r.lambda, r.failures = true, l.Min, 0
		case <-timer.C:
		}
		r.giveUp()
		again, err := r.once(ctx)
		for err == nil && again && ctx.Err() == nil {
			again, err = r.once(ctx)
		}
		if r.sending != nil {
			timer.Stop() // what becomes of it comes first
			continue
		}
		settle(err)
	}
}

// leave says goodbye, if anybody hears it.
func (r *lowerRun) leave(ctx context.Context) {
	const patience = time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	var reply wire.ReportReply
	err := r.request(ctx, r.Subjects.Report, wire.Report{V: wire.Version, Have: r.Desired.Have(), Leaving: true}, &reply)
	if err != nil {
		r.Log.Debug("saying goodbye", "error", err)
	}
}

// pause is the time until the next exchange: λ with a little jitter, or a
// back-off after a failure.
func (r *lowerRun) pause(err error) time.Duration {
	d := r.lambda
	if err != nil {
		r.failures++
		d = min(r.Min<<min(r.failures, 4), r.longest)
		r.Log.Debug("exchange failed", "subject", r.Subjects.Report, "error", err, "again_in", d)
	} else {
		r.failures = 0
		r.lambda = min(r.lambda*2, r.longest)
	}
	d -= rand.N(d/10 + 1)
	if err == nil && r.Beats > 0 && r.lambda == r.longest {
		return onBeat(time.Now(), d)
	}
	return d
}

// once makes one report and acts on the reply. again: there is more to say.
func (r *lowerRun) once(ctx context.Context) (again bool, err error) {
	rep := wire.Report{V: wire.Version, Have: r.Desired.Have(), At: time.Now().Unix(), Next: int(min(r.lambda*2, r.longest) / time.Millisecond)}
	if r.Observed.Rev() != r.acked {
		if rep.Changes, rep.From, rep.To, rep.More, err = r.Observed.Since(ctx, r.acked); err != nil {
			return false, fmt.Errorf("collecting what to report: %w", err)
		}
	}
	if r.Status != nil {
		if rep.Status, err = r.Status(r.needStatus); err != nil {
			return false, fmt.Errorf("collecting the status: %w", err)
		}
	}
	if r.Uses != nil {
		rep.Uses = r.Uses(r.needStatus)
	}
	if r.needStatus {
		rep.Proof = r.Desired.Proof()
	}
	if r.beats > 0 && !r.needStatus && rep.Status == nil && rep.Uses == nil && rep.To.IsZero() {
		r.beats--
		rep.From, rep.To = r.acked, r.acked // whoever has something else will say so
		return false, r.send(ctx, rep)
	}
	r.beats = 0
	var reply wire.ReportReply
	if err := r.request(ctx, r.Subjects.Report, rep, &reply); err != nil {
		r.needStatus = true // what was said may not have been heard
		return false, err
	}
	if err := wire.CheckVersion("the reply to a report", reply.V); err != nil {
		return false, err
	}
	if reply.Refused != "" {
		r.needStatus = true // it was heard, and not taken over
		return false, fmt.Errorf("report refused: %s", reply.Refused)
	}
	if r.OnFilter != nil {
		r.OnFilter(reply.Heeds)
	}
	if r.OnGateway != nil {
		r.OnGateway(reply.NoGateway)
	}
	before := r.acked
	r.acked, r.needStatus = reply.Ack, reply.NeedStatus
	if r.OnAck != nil {
		r.OnAck(reply.Ack)
	}
	if reply.Interval > 0 {
		r.longest = max(r.Min, time.Duration(reply.Interval)*time.Millisecond)
	}
	if reply.Renew && r.Lower.Renew != nil {
		r.Lower.Renew()
	}
	if r.OnWas != nil && !reply.Was.IsZero() {
		r.OnWas(reply.Was)
	}
	if reply.Want != rep.Have {
		if err := r.fetch(ctx, rep.Have); err != nil {
			return false, err
		}
		r.lambda = r.Min
		return true, nil
	}
	if r.Partial != nil && !rep.Have.IsZero() && r.Partial() {
		// An upper side that recovers gives nothing: then with one of the next exchanges.
		if err := r.fetch(ctx, wire.Rev{}); err != nil {
			r.Log.Debug("fetching all of the desired state", "error", err)
		}
	}
	if len(reply.Proof) > 0 && !bytes.Equal(reply.Proof, r.Desired.Proof()) {
		if err := r.Desired.Take(ctx, false, nil, rep.Have, reply.Proof); err != nil {
			return false, fmt.Errorf("storing the proof of the desired state %s: %w", rep.Have, err)
		}
	}
	if r.lambda >= r.longest && !reply.NeedStatus && !reply.Renew && r.acked == r.Observed.Rev() {
		r.beats = r.Beats
	}
	// Go on while that makes progress: a peer that forgot (restart) or that
	// takes pages acknowledges something else than before. One that was just told
	// the status and asks for it again is not answered at once.
	return reply.NeedStatus && rep.Status == nil || (r.acked != r.Observed.Rev() && r.acked != before), nil
}

// hear takes over what nudges bring along, this one and those that wait behind it: what
// is new of all of them is stored at once. It says whether all that they told of is here.
func (r *lowerRun) hear(ctx context.Context, d wire.Down, more <-chan wire.Down) bool {
	before := r.Desired.Have()
	var news pages
	have, proof, whole := before, []byte(nil), true
	for waits := true; waits; {
		switch err := news.follow(d, &have, &proof); {
		case errors.Is(err, errNoNews):
			whole = false
		case err != nil: // a part of it may have been added
			r.Log.Debug("a nudge", "subject", r.Subjects.Nudge, "error", err)
			return false
		}
		select {
		case d = <-more:
		default:
			waits = false
		}
	}
	if have == before {
		return false
	}
	if err := r.Desired.Take(ctx, false, news.changes, have, proof); err != nil {
		r.Log.Debug("storing what a nudge brought", "to", have, "error", err)
		return false
	}
	return whole
}

// errNoNews: a nudge brings nothing that can be taken over.
var errNoNews = errors.New("it leads from nowhere here")

// follow adds what a nudge brings along, if that leads on from have, and moves have on,
// with its proof.
func (p *pages) follow(d wire.Down, have *wire.Rev, proof *[]byte) error {
	n := d.News
	if n == nil || n.Full || n.More || n.Moved || !within(*have, d.Since, n.To) {
		return errNoNews
	}
	if err := errors.Join(wire.CheckVersion("the nudge", d.V), wire.CheckVersion("what it brings", n.V)); err != nil {
		return err
	}
	if err := p.add(*n); err != nil {
		return err
	}
	*have, *proof = n.To, n.Proof
	return nil
}

// within says whether changes that lead from since to to lead on from have: also those
// do that began before it in the same history, since they are the latest values.
func within(have, since, to wire.Rev) bool {
	if have.IsZero() || have == to {
		return false
	}
	same := since.Inc == to.Inc && have.Inc == to.Inc
	return have == since || same && since.N <= have.N && have.N < to.N
}

// fetch brings the desired state up to date. What is there counts when its last
// page has come; only where the pages can no longer be joined does it begin again.
func (r *lowerRun) fetch(ctx context.Context, since wire.Rev) error {
	const tries = 5
	for range tries {
		var all pages
		f := wire.Fetch{V: wire.Version, Since: since, Unpacks: true}
		for {
			var page wire.FetchReply
			if err := r.request(ctx, r.Subjects.Fetch, f, &page); err != nil {
				return err
			}
			if err := wire.CheckVersion("the reply to a fetch", page.V); err != nil {
				return err
			}
			if page.Moved {
				break
			}
			if err := all.add(page); err != nil {
				return fmt.Errorf("the reply of %s: %w", r.Subjects.Fetch, err)
			}
			if page.More && (len(page.Changes) > 0 || page.To != f.At) {
				f.At = page.To
				if n := len(page.Changes); n > 0 {
					f.After = page.Changes[n-1].Key
				}
				continue
			}
			if err := r.Desired.Take(ctx, all.full, all.changes, page.To, page.Proof); err != nil {
				return fmt.Errorf("storing the desired state %s: %w", page.To, err)
			}
			return nil
		}
	}
	return fmt.Errorf("the desired state changed %d times while it was fetched", tries)
}

// pages of one fetch. A key that changed while they were fetched is in several
// of them; what the last one says counts.
type pages struct {
	full    bool // as the first one said
	changes []wire.Change
	at      map[string]int // places in changes by key
}

func (p *pages) add(page wire.FetchReply) error {
	if p.at == nil {
		p.full, p.at = page.Full, map[string]int{}
	}
	for _, c := range page.Changes {
		c, err := unpacked(c)
		if err != nil {
			return err
		}
		if i, again := p.at[c.Key]; again {
			p.changes[i] = c
			continue
		}
		p.at[c.Key] = len(p.changes)
		p.changes = append(p.changes, c)
	}
	return nil
}

func (r *lowerRun) request(ctx context.Context, subject string, req, reply any) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	b, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encoding for %s: %w", subject, err)
	}
	out, err := r.Conn.Request(ctx, subject, b)
	if err != nil {
		return fmt.Errorf("asking %s: %w", subject, err)
	}
	if err := json.Unmarshal(out, reply); err != nil {
		return fmt.Errorf("decoding the reply of %s: %w", subject, err)
	}
	return nil
}

func (r *lowerRun) timeout() time.Duration {
	if r.Timeout == 0 {
		return 5 * time.Second
	}
	return r.Timeout
}

// answer serves one question from above.
func (l *Lower) answer(ctx context.Context, m bus.Msg) {
	a := rpc.Answer{V: wire.Version}
	var q rpc.Ask
	err := json.Unmarshal(m.Data, &q)
	if err == nil && l.Answer == nil {
		err = errors.New("nothing is answered here")
	}
	if err == nil {
		q.Bound(l.bulk.most())
		var data any
		if data, err = l.Answer(ctx, q); err == nil {
			a.Data, err = json.Marshal(data)
		}
	}
	if err == nil && len(a.Data) > wire.MaxMessageBytes-1024 {
		err = errors.New("the answer is too large")
	}
	if err != nil {
		a = refusal(err)
	}
	l.respond(ctx, m, a)
}

// refusal is an answer that says what is wrong.
func refusal(err error) rpc.Answer {
	a := rpc.Answer{V: wire.Version, Error: err.Error()}
	var p *wire.Problem
	if errors.As(err, &p) {
		a.Problem = p
	}
	return a
}

func (l *Lower) respond(ctx context.Context, m bus.Msg, a rpc.Answer) {
	b, err := json.Marshal(a)
	switch {
	case err != nil:
	case len(b) <= bulkBytes:
		err = m.Respond(b)
	default:
		err = l.bulk.send(ctx, l.Conn, len(b), func() error { return m.Respond(b) })
	}
	if err != nil {
		l.Log.Debug("answering a question from above", "error", err)
	}
}
