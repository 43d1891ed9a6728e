package bustest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
)

type makeConns func(t *testing.T, identities ...bus.Permissions) []bus.Conn

func runConn(t *testing.T, conns makeConns) {
	for name, test := range map[string]func(t *testing.T, conns makeConns){
		"PublishSubscribe": testPublish,
		"Order":            testOrder,
		"Request":          testRequest,
		"Send":             testSend,
		"NoResponder":      testNoResponder,
		"Forbidden":        testForbidden,
		"BadSubject":       testBadSubject,
		"SlowHandler":      testSlowHandler,
		"Unsubscribe":      testUnsubscribe,
		"Close":            testClose,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, conns)
		})
	}
}

func subscribe(t *testing.T, c bus.Conn, subject string) <-chan bus.Msg {
	t.Helper()
	got := make(chan bus.Msg, 10_000)
	if _, err := c.Subscribe(subject, func(_ context.Context, m bus.Msg) { got <- m }); err != nil {
		t.Fatal(err)
	}
	return got
}

func publish(t *testing.T, c bus.Conn, subject, data string) {
	t.Helper()
	if err := c.Publish(subject, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, from <-chan bus.Msg) bus.Msg {
	t.Helper()
	select {
	case m := <-from:
		return m
	case <-time.After(patience):
		t.Fatal("no message came")
		return bus.Msg{}
	}
}

func ask(t *testing.T, c bus.Conn, subject, data string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return c.Request(ctx, subject, []byte(data))
}

func testPublish(t *testing.T, conns makeConns) {
	c := conns(t, bus.Everything(), bus.Everything())
	if up, _ := c[0].Connected(); !up {
		t.Fatal("not connected")
	}
	exact, star, rest := subscribe(t, c[1], "a.b.c"), subscribe(t, c[1], "a.*.c"), subscribe(t, c[1], "a.>")
	publish(t, c[0], "a", "not for them")
	publish(t, c[0], "a.b", "1")
	publish(t, c[0], "a.x.c", "2")
	publish(t, c[0], "a.b.c", "3")
	for name, tc := range map[string]struct {
		from <-chan bus.Msg
		want []string
	}{"exact": {exact, []string{"3"}}, "star": {star, []string{"2", "3"}}, "rest": {rest, []string{"1", "2", "3"}}} {
		for _, want := range tc.want {
			m := receive(t, tc.from)
			if string(m.Data) != want {
				t.Fatalf("%s: got %q on %s, want %q", name, m.Data, m.Subject, want)
			}
			if m.Respond == nil || m.Respond(nil) == nil {
				t.Fatalf("%s: a plain message was answered", name)
			}
		}
	}
}

func testOrder(t *testing.T, conns makeConns) {
	c := conns(t, bus.Everything(), bus.Everything())
	got := subscribe(t, c[1], "seq")
	const n = 2000
	for i := range n {
		publish(t, c[0], "seq", fmt.Sprint(i))
	}
	for i := range n {
		if m := receive(t, got); string(m.Data) != fmt.Sprint(i) {
			t.Fatalf("message %d is %q", i, m.Data)
		}
	}
}

func testRequest(t *testing.T, conns makeConns) {
	c := conns(t, bus.Everything(), bus.Everything())
	_, err := c[1].Subscribe("echo", func(_ context.Context, m bus.Msg) {
		if err := m.Respond(append([]byte("re "), m.Data...)); err != nil {
			t.Errorf("respond: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		answer, err := ask(t, c[0], "echo", fmt.Sprint(i))
		if err != nil || string(answer) != fmt.Sprintf("re %d", i) {
			t.Fatalf("answer %q, %v", answer, err)
		}
	}
	subscribe(t, c[1], "silent")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := c[0].Request(ctx, "silent", nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("request without an answer: %v", err)
	}
}

// What was sent comes, and wants no answer.
func testSend(t *testing.T, conns makeConns) {
	c := conns(t, bus.Everything(), bus.Everything(), bus.Permissions{Publish: []string{"own.>"}})
	got := subscribe(t, c[1], "s.>")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c[0].Send(ctx, "nobody.listens", nil); err != nil {
		t.Fatalf("to nobody: %v", err)
	}
	for n := range 10 {
		if err := c[0].Send(ctx, "s.sent", fmt.Append(nil, n)); err != nil {
			t.Fatal(err)
		}
		if m := receive(t, got); m.Subject != "s.sent" || string(m.Data) != fmt.Sprint(n) || !m.OneWay {
			t.Fatalf("%d: %+v, want one that wants no answer", n, m)
		}
	}
	if err := c[2].Send(ctx, "s.sent", nil); !errors.Is(err, bus.ErrForbidden) {
		t.Errorf("what is not permitted: %v", err)
	}
	if err := c[0].Drained(ctx); err != nil {
		t.Errorf("wait until all has left: %v", err)
	}
	over, end := context.WithCancel(ctx)
	end()
	if err := c[0].Send(over, "s.sent", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	c[0].Close()
	if err := c[0].Send(ctx, "s.sent", nil); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if _, err := c[1].Subscribe("ask", func(_ context.Context, m bus.Msg) {
		if err := m.Respond(fmt.Append(nil, m.OneWay)); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if answer, err := c[1].Request(ctx, "ask", nil); err != nil || string(answer) != "false" {
		t.Errorf("one that wants an answer: one-way is %s, %v", answer, err)
	}
}

func testNoResponder(t *testing.T, conns makeConns) {
	c := conns(t, bus.Everything())
	if _, err := ask(t, c[0], "nobody.here", ""); !errors.Is(err, bus.ErrNoResponder) {
		t.Fatalf("request to nobody: %v", err)
	}
}

func testForbidden(t *testing.T, conns makeConns) {
	c := conns(t, bus.Everything(), bus.Permissions{Publish: []string{"w.a.>"}, Subscribe: []string{"o.a.>", "o.*.all"}})
	boss, worker := c[0], c[1]
	up := subscribe(t, boss, ">")
	for _, s := range []string{"w.b.x", "w.a", "o.a.x", "x"} {
		if err := worker.Publish(s, nil); !errors.Is(err, bus.ErrForbidden) {
			t.Errorf("publish to %s: %v", s, err)
		}
		if _, err := ask(t, worker, s, ""); !errors.Is(err, bus.ErrForbidden) {
			t.Errorf("request to %s: %v", s, err)
		}
	}
	for _, s := range []string{">", "*", "o.>", "o.*.x", "o.b.x", "w.a.x", "o.a", "*.a.x"} {
		if _, err := worker.Subscribe(s, func(context.Context, bus.Msg) {}); !errors.Is(err, bus.ErrForbidden) {
			t.Errorf("subscribe to %s: %v", s, err)
		}
	}
	publish(t, worker, "w.a.x", "allowed")
	for m := receive(t, up); ; m = receive(t, up) {
		if strings.HasPrefix(m.Subject, "_INBOX") {
			continue // answers to requests pass here too
		}
		if m.Subject != "w.a.x" {
			t.Fatalf("first message is on %s", m.Subject)
		}
		break
	}
	down := subscribe(t, worker, "o.a.>")
	publish(t, boss, "o.b.x", "not for a")
	publish(t, boss, "o.a.x", "for a")
	if m := receive(t, down); string(m.Data) != "for a" {
		t.Fatalf("got %q", m.Data)
	}
}

func testBadSubject(t *testing.T, conns makeConns) {
	c := conns(t, bus.Everything())[0]
	for _, s := range []string{"", ".", "a.", ".a", "a..b", "a b", "a.*", "a.>", "a\r\nPUB b 0"} {
		if err := c.Publish(s, nil); err == nil {
			t.Errorf("publish to %q: accepted", s)
		}
	}
	for _, s := range []string{"", "a..b", "a.>.b", "a b"} {
		if _, err := c.Subscribe(s, func(context.Context, bus.Msg) {}); err == nil {
			t.Errorf("subscribe to %q: accepted", s)
		}
	}
}

func testSlowHandler(t *testing.T, conns makeConns) {
	c := conns(t, bus.Everything(), bus.Everything())
	release := signal()
	entered := signal()
	_, err := c[1].Subscribe("slow", func(context.Context, bus.Msg) {
		entered <- struct{}{}
		<-release
	})
	if err != nil {
		t.Fatal(err)
	}
	fast := subscribe(t, c[1], "fast")
	publish(t, c[0], "slow", "")
	<-entered
	publish(t, c[0], "fast", "x")
	receive(t, fast)
	close(release)
}

func signal() chan struct{} { return make(chan struct{}, 1) }

func testUnsubscribe(t *testing.T, conns makeConns) {
	c := conns(t, bus.Everything(), bus.Everything())
	var calls atomic.Int32
	ended := signal()
	entered := signal()
	unsubscribe, err := c[1].Subscribe("s", func(ctx context.Context, _ bus.Msg) {
		calls.Add(1)
		entered <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
	})
	if err != nil {
		t.Fatal(err)
	}
	witness := subscribe(t, c[1], "s")
	publish(t, c[0], "s", "1")
	<-entered
	publish(t, c[0], "s", "2") // waits behind the first
	receive(t, witness)
	receive(t, witness)
	unsubscribe()
	<-ended
	publish(t, c[0], "s", "3")
	receive(t, witness)
	unsubscribe()
	c[1].Close()
	if n := calls.Load(); n != 1 {
		t.Fatalf("handler was called %d times", n)
	}
}

func testClose(t *testing.T, conns makeConns) {
	c := conns(t, bus.Everything(), bus.Everything())
	entered := signal()
	var finished atomic.Bool
	_, err := c[1].Subscribe("s", func(ctx context.Context, _ bus.Msg) {
		entered <- struct{}{}
		<-ctx.Done()
		finished.Store(true)
	})
	if err != nil {
		t.Fatal(err)
	}
	_, changed := c[1].Connected()
	publish(t, c[0], "s", "")
	<-entered
	c[1].Close()
	if !finished.Load() {
		t.Fatal("close did not wait for the handler")
	}
	c[1].Close()
	select {
	case <-changed:
	case <-time.After(patience):
		t.Fatal("the end of the connection was not told")
	}
	if up, _ := c[1].Connected(); up {
		t.Fatal("connected after close")
	}
	if err := c[1].Publish("s", nil); !errors.Is(err, bus.ErrClosed) {
		t.Fatalf("publish after close: %v", err)
	}
	if _, err := c[1].Subscribe("s", func(context.Context, bus.Msg) {}); !errors.Is(err, bus.ErrClosed) {
		t.Fatalf("subscribe after close: %v", err)
	}
	if _, err := c[1].Request(t.Context(), "s", nil); !errors.Is(err, bus.ErrClosed) {
		t.Fatalf("request after close: %v", err)
	}
	if _, err := ask(t, c[0], "s", ""); !errors.Is(err, bus.ErrNoResponder) {
		t.Fatalf("request to a closed connection: %v", err)
	}
}
