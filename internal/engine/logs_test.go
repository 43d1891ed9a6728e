package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/engine/logs"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// What was written since: at least that, also with a number of lines; and all, if
// the engine was not there then.
func TestLogsSince(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		dir := state.At(r.dir, web0).Log()
		want := func(q rpc.LogAsk, want string) {
			t.Helper()
			if c, err := r.e.Logs(context.Background(), web0, q); err != nil || string(c.Data) != want {
				t.Errorf("%+v: %q, %v, want %q", q, c.Data, err, want)
			}
		}
		appendLog(t, dir, "long ago\n")
		after(time.Hour)
		appendLog(t, dir, "one\ntwo\n")
		want(rpc.LogAsk{Since: time.Minute}, "one\ntwo\n")
		after(10 * time.Minute)
		appendLog(t, dir, "three\n")
		want(rpc.LogAsk{Since: 30 * time.Minute}, "one\ntwo\nthree\n")
		want(rpc.LogAsk{Since: 30 * time.Minute, Offset: -2}, "two\nthree\n")
		want(rpc.LogAsk{Since: 30 * time.Minute, Offset: -9}, "one\ntwo\nthree\n")
		want(rpc.LogAsk{Since: time.Minute, Offset: -9}, "three\n")
		want(rpc.LogAsk{Since: 2 * time.Hour}, "long ago\none\ntwo\nthree\n")
		after(logs.RotateEvery)
		r.stop()
		r.start()
		after(time.Minute)
		appendLog(t, dir, "four\n")
		want(rpc.LogAsk{Since: 30 * time.Second}, "four\n")
		want(rpc.LogAsk{Since: 5 * time.Minute}, "long ago\none\ntwo\nthree\nfour\n")
	})
}

// appendLog writes as a program does.
func appendLog(t *testing.T, dir, text string) {
	t.Helper()
	f, err := logfile.Open(dir)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The log of an instance that has left this worker is there for a day, also for the next
// engine, and is not that of the instance that comes after it.
func TestTheLogOfWhatHasLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		appendLog(t, state.At(r.dir, web0).Log(), "fatal: cannot open config\n")
		r.apply()
		after(time.Minute)
		read := func(incarnation int) (string, error) {
			c, err := r.e.Logs(context.Background(), web0, rpc.LogAsk{Incarnation: incarnation})
			return string(c.Data), err
		}
		if text, err := read(0); !errors.Is(err, state.ErrNoInstance) {
			t.Errorf("an instance that has left: %q, %v", text, err)
		}
		want := func(text string) {
			t.Helper()
			if got, err := read(1); err != nil || got != text {
				t.Errorf("%q, %v, want %q", got, err, text)
			}
		}
		want("fatal: cannot open config\n")
		r.stop()
		r.start()
		want("fatal: cannot open config\n")
		r.apply(order(0, 2, 100))
		if text, err := read(0); err != nil || text != "" {
			t.Errorf("the log of the next incarnation: %q, %v", text, err)
		}
		want("fatal: cannot open config\n")
		after(logs.KeepFor)
		if text, err := read(1); !errors.Is(err, state.ErrNoInstance) {
			t.Errorf("a day later: %q, %v", text, err)
		}
	})
}
