package bus_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
)

// Messages are handed over directly with all that they have to say, also after the
// server has taken other options and another account; and not once that has ended.
func TestSubscribeDirect(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	c := startCluster(t, a, "edge", t.TempDir(), nil)
	direct, ok := c.Local().(bus.Direct)
	if !ok {
		t.Fatal("the connection among the workers is not direct")
	}
	got := make(chan bus.Msg, 10)
	unsubscribe, err := direct.SubscribeDirect("w.*.report", func(_ context.Context, m bus.Msg) {
		data := bytes.Clone(m.Data)
		if !m.OneWay {
			if err := m.Respond(append([]byte("heard "), data...)); err != nil {
				t.Error(err)
			}
		} else if m.Respond(data) == nil {
			t.Error("a message that wants no answer was answered")
		}
		m.Data = data
		got <- m
	})
	if err != nil {
		t.Fatal(err)
	}
	w1, _, _ := joinWorker(t, a, c, "w1")
	w2, key, _ := joinWorker(t, a, c, "w2")
	hear := func(what string, conn bus.Conn, name, data string) {
		t.Helper()
		if err := conn.Send(t.Context(), "w."+name+".report", []byte(data)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if m := <-got; m.Subject != "w."+name+".report" || string(m.Data) != data || !m.OneWay {
			t.Errorf("%s: heard %+v", what, m)
		}
		if answer, err := request(t, conn, "w."+name+".report", data); err != nil || answer != "heard "+data {
			t.Errorf("%s: answered %q, %v", what, answer, err)
		}
		<-got
	}
	hear("one", w1, "w1", "{}")
	hear("nothing", w1, "w1", "")
	hear("ends of lines", w1, "w1", "a\r\n\r\n")
	hear("a large one", w2, "w2", strings.Repeat("x", 100_000))
	if err := w1.Send(t.Context(), "w.w2.report", nil); !errors.Is(err, bus.ErrForbidden) {
		t.Errorf("in another's name: %v", err)
	}
	if err := c.SetUpstream(*upstream(t, a, startRoot(t, a, t.TempDir(), "127.0.0.1:0"), "edge")); err != nil {
		t.Fatal(err)
	}
	hear("with another upstream", w1, "w1", "{}")
	if err := c.RevokeWorker("w2", key.Public()); err != nil {
		t.Fatal(err)
	}
	hear("with another account", w1, "w1", "{}")
	unsubscribe()
	unsubscribe()
	if err := w1.Send(t.Context(), "w.w1.report", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := request(t, w1, "w.w1.report", ""); !errors.Is(err, bus.ErrNoResponder) {
		t.Errorf("when nobody listens any more: %v", err)
	}
	if len(got) > 0 {
		t.Errorf("heard after the end: %+v", <-got)
	}
}

// Without a connection nothing is sent, and nothing kept for later.
func TestSendWithoutAConnection(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	c := startCluster(t, a, "edge", t.TempDir(), nil)
	w, _, _ := joinWorker(t, a, c, "w1")
	c.Close()
	waitUp(t, w, false)
	if err := w.Send(t.Context(), "w.w1.report", nil); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("without a connection: %v", err)
	}
}
