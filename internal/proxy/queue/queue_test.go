package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// enter enters in a goroutine of its own.
func enter(ctx context.Context, q *Queue, deadline time.Time) (*Ticket, <-chan error) {
	t, out := new(Ticket), make(chan error, 1)
	go func() { out <- q.Enter(ctx, t, deadline) }()
	return t, out
}

func waits(t *testing.T, c <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-c:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
}

func gets(t *testing.T, c <-chan error, want error) {
	t.Helper()
	if got := <-c; !errors.Is(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestInOrderAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Places: 1, Waiting: 2}, time.Now())
		var a Ticket
		if err := q.Enter(t.Context(), &a, time.Time{}); err != nil {
			t.Fatal(err)
		}
		b, second := enter(t.Context(), q, time.Time{})
		waits(t, second)
		c, third := enter(t.Context(), q, time.Time{})
		waits(t, third)
		var d Ticket
		if err := q.Enter(t.Context(), &d, time.Time{}); !errors.Is(err, ErrFull) {
			t.Fatalf("a fourth got %v", err)
		}
		d.Done(true) // it was never in
		time.Sleep(time.Second)
		a.Done(true)
		a.Done(true)
		gets(t, second, nil)
		waits(t, third)
		b.Done(true)
		gets(t, third, nil)
		if s := q.State(); s.Running != 1 || s.Waiting != 0 || s.Refused != 1 {
			t.Fatalf("state %+v", s)
		}
		c.Done(false)
		if s := q.State(); s.Running != 0 {
			t.Fatalf("state %+v", s)
		}
		if r := q.Report(time.Now()); r.Exec < 100*time.Millisecond || r.Queue != 0 || r.InFlight != 0 {
			t.Fatalf("report %+v", r)
		}
	})
}

func TestWhoGivesUpLeavesTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Places: 1, Waiting: 9}, time.Now())
		var a Ticket
		if err := q.Enter(t.Context(), &a, time.Time{}); err != nil {
			t.Fatal(err)
		}
		_, late := enter(t.Context(), q, time.Now().Add(time.Second))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		_, left := enter(ctx, q, time.Time{})
		synctest.Wait()
		last, stays := enter(t.Context(), q, time.Time{})
		synctest.Wait()
		cancel()
		gets(t, left, context.Canceled)
		time.Sleep(2 * time.Second)
		gets(t, late, ErrLate)
		a.Done(true)
		gets(t, stays, nil)
		last.Done(true)
		if s := q.State(); s.Running != 0 || s.Waiting != 0 {
			t.Fatalf("state %+v", s)
		}
	})
}

func TestClosedUntilAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Places: 2, Waiting: 3}, time.Now())
		q.Close()
		var tickets []*Ticket
		var outs []<-chan error
		for range 3 {
			ticket, out := enter(t.Context(), q, time.Time{})
			waits(t, out)
			tickets, outs = append(tickets, ticket), append(outs, out)
		}
		q.Open()
		gets(t, outs[0], nil)
		gets(t, outs[1], nil)
		waits(t, outs[2])
		tickets[0].Done(true)
		gets(t, outs[2], nil)
		tickets[1].Done(true)
		tickets[2].Done(true)

		q.Close()
		_, out := enter(t.Context(), q, time.Time{})
		waits(t, out)
		no := errors.New("no room")
		q.Fail(no)
		gets(t, out, no)
		if s := q.State(); s.Waiting != 0 || !s.Closed {
			t.Fatalf("state %+v", s)
		}
	})
}

func TestNobodyMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Places: 1}, time.Now())
		q.Close()
		// Where an instance sleeps, those that it could run at once wait for it.
		a, first := enter(t.Context(), q, time.Time{})
		waits(t, first)
		var b Ticket
		if err := q.Enter(t.Context(), &b, time.Time{}); !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		q.Open()
		gets(t, first, nil)
		if err := q.Enter(t.Context(), &b, time.Time{}); !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		a.Done(true)
	})
}

func TestChangedLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Places: 1, Waiting: 9}, time.Now())
		var tickets []*Ticket
		for range 5 {
			ticket, _ := enter(t.Context(), q, time.Time{})
			synctest.Wait()
			tickets = append(tickets, ticket)
		}
		q.SetLimits(Limits{Places: 3, Waiting: 9})
		synctest.Wait()
		if s := q.State(); s.Running != 3 || s.Waiting != 2 {
			t.Fatalf("state %+v", s)
		}
		q.SetLimits(Limits{Waiting: 9})
		synctest.Wait()
		if s := q.State(); s.Running != 5 || s.Waiting != 0 {
			t.Fatalf("state %+v", s)
		}
		for _, ticket := range tickets {
			ticket.Done(true)
		}
	})
}

func TestNoAllocation(t *testing.T) {
	q := New(Limits{Places: 1, Waiting: 9}, time.Now())
	var ticket Ticket
	if n := testing.AllocsPerRun(100, func() {
		if err := q.Enter(t.Context(), &ticket, time.Time{}); err != nil {
			t.Fatal(err)
		}
		ticket.Done(true)
	}); n > 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkEnter(b *testing.B) {
	q := New(Limits{Places: 1, Waiting: 9}, time.Now())
	var ticket Ticket
	b.ReportAllocs()
	for b.Loop() {
		if err := q.Enter(b.Context(), &ticket, time.Time{}); err != nil {
			b.Fatal(err)
		}
		ticket.Done(true)
	}
}
