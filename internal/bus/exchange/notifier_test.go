package exchange_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/wire"
)

// counts are the reports, those that were answered and the fetches so far.
func (p *pair) counts() (reports, answered, fetches int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reports, p.answered, p.fetches
}

// What is new comes with the nudge, and one report says that it is there: nothing is
// fetched, nobody waits for an answer.
func TestNewsComeWithANudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.put("to.w1.a", `1`)
		p.put("route.r", `2`)
		time.Sleep(time.Minute)
		for n, step := range []struct {
			change func()
			want   map[string]string
		}{
			{func() { p.put("to.w1.a", `3`) }, map[string]string{"order.a": "3", "route.r": "2"}},
			{func() { p.put("to.w1.b", `4`); p.put("route.r", `5`) }, map[string]string{"order.a": "3", "order.b": "4", "route.r": "5"}},
			{func() {
				if _, err := p.store.Delete(context.Background(), "to.w1.a"); err != nil {
					t.Fatal(err)
				}
			}, map[string]string{"order.b": "4", "route.r": "5"}},
		} {
			synctest.Wait()
			reports, answered, fetches := p.counts()
			had := p.desired.Have()
			step.change()
			p.notifier.Tell("w1", p.upperDesired("w1"), had)
			synctest.Wait()
			equal(t, "desired", p.desired.get(), step.want)
			r, a, f := p.counts()
			if r-reports != 1 || a != answered || f != fetches {
				t.Errorf("step %d: %d reports, %d of them answered, %d fetches; want one that is not answered", n, r-reports, a-answered, f-fetches)
			}
			if have, want := p.desired.Have(), p.upperDesired("w1").Rev(); have != want {
				t.Errorf("step %d: it has %s, there is %s", n, have, want)
			}
			time.Sleep(time.Minute)
		}
	})
}

// News that do not lead on from what is there, are too much or no news at all are a nudge
// as any other.
func TestNewsThatLeadNowhere(t *testing.T) {
	for name, c := range map[string]struct {
		have   func(now wire.Rev) wire.Rev
		value  string
		damage func(p *pair)
		brings bool
	}{
		"what it had":             {func(now wire.Rev) wire.Rev { return now }, `"x"`, nil, true},
		"what it had once":        {func(now wire.Rev) wire.Rev { return wire.Rev{Inc: now.Inc, N: now.N - 1} }, `"x"`, nil, true},
		"nobody knows":            {func(wire.Rev) wire.Rev { return wire.Rev{} }, `"x"`, nil, false},
		"another history":         {func(now wire.Rev) wire.Rev { return wire.Rev{Inc: "other", N: now.N} }, `"x"`, nil, false},
		"later than there is":     {func(now wire.Rev) wire.Rev { return wire.Rev{Inc: now.Inc, N: now.N + 100} }, `"x"`, nil, false},
		"much":                    {func(now wire.Rev) wire.Rev { return now }, `"` + strings.Repeat("x", 40<<10) + `"`, nil, false},
		"it cannot be stored now": {func(now wire.Rev) wire.Rev { return now }, `"x"`, func(p *pair) { p.desired.fail = context.DeadlineExceeded }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t)
				p.put("to.w1.a", `1`)
				p.put("to.w1.b", `2`)
				time.Sleep(time.Minute)
				synctest.Wait()
				_, _, fetches := p.counts()
				had := p.desired.Have()
				p.put("to.w1.a", c.value)
				if c.damage != nil {
					p.desired.mu.Lock()
					c.damage(p)
					p.desired.mu.Unlock()
				}
				p.notifier.Tell("w1", p.upperDesired("w1"), c.have(had))
				synctest.Wait()
				if c.damage != nil {
					p.desired.mu.Lock()
					p.desired.fail = nil
					p.desired.mu.Unlock()
					time.Sleep(15 * time.Second)
					synctest.Wait()
				}
				equal(t, "desired", p.desired.get(), map[string]string{"order.a": c.value, "order.b": "2"})
				if _, _, f := p.counts(); (f == fetches) != c.brings {
					t.Errorf("%d fetches, want some: %v", f-fetches, !c.brings)
				}
			})
		})
	}
}

// A nudge may say anything: it is one all the same, and what is there stays right.
func TestNudgesOfAllKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.put("to.w1.a", `1`)
		time.Sleep(time.Minute)
		c := p.hub.Conn("other", bus.Permissions{Publish: []string{">"}})
		defer c.Close()
		have := p.desired.Have()
		down := func(v int, since, to wire.Rev, full bool) string {
			news := &wire.FetchReply{V: v, Full: full, To: to, Changes: []wire.Change{{Key: "order.z", Value: json.RawMessage("7")}}}
			b, err := json.Marshal(wire.Down{V: v, Since: since, News: news})
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		next := wire.Rev{Inc: have.Inc, N: have.N + 1}
		for _, text := range []string{
			"", "rubbish", `{"v":1,"n":true,"f":null}`, `{"f":7}`,
			down(wire.Version, wire.Rev{Inc: "x", N: 1}, wire.Rev{Inc: "x", N: 9}, false),
			down(wire.Version+100, have, next, false),
			down(wire.Version, have, next, true),
			down(wire.Version, have, have, false),
		} {
			synctest.Wait()
			reports, _, _ := p.counts()
			if err := c.Publish(exchange.WorkerSubjects("w1").Nudge, []byte(text)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			equal(t, "desired after "+text, p.desired.get(), map[string]string{"order.a": "1"})
			if r, _, _ := p.counts(); r == reports {
				t.Errorf("%q is not heard as a nudge", text)
			}
			time.Sleep(time.Minute)
		}
	})
}

// Who is told often is told of all of it once, in turn with the others; nobody is told
// anything after the end.
func TestNotifierTellsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := bustest.NewMem()
		all := bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
		up, low := hub.Conn("up", all), hub.Conn("low", all)
		defer low.Close()
		defer up.Close()
		var heard []string
		stop, err := low.Subscribe("o.*.nudge", func(_ context.Context, m bus.Msg) { heard = append(heard, m.Subject) })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		enter, leave := make(chan struct{}), make(chan struct{})
		h := &exchange.Notifier{Conn: up, Subject: func(peer string) string {
			if peer == "first" {
				close(enter)
				<-leave
			}
			return exchange.WorkerSubjects(peer).Nudge
		}}
		h.Tell("first", exchange.Desired{}, wire.Rev{})
		<-enter
		for range 100 {
			h.Tell("b", exchange.Desired{}, wire.Rev{})
			h.Tell("a", exchange.Desired{}, wire.Rev{})
		}
		close(leave)
		synctest.Wait()
		if got := strings.Join(heard, " "); got != "o.first.nudge o.b.nudge o.a.nudge" {
			t.Errorf("heard %s", got)
		}
		h.Close()
		h.Tell("late", exchange.Desired{}, wire.Rev{})
		synctest.Wait()
		if len(heard) != 3 {
			t.Errorf("heard %v", heard)
		}
	})
}
