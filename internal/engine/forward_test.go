package engine

import (
	"testing"

	"github.com/verge-edge/verge/internal/wire/rpc"
)

// A session of a copy or of connections is one like any other: it belongs to who
// opened it, and the same key is the same session.
func TestSessionsOfOtherKinds(t *testing.T) {
	b := newBench(t)
	b.apply(serverOrder(t))
	b.ready(0)
	for name, ask := range map[string]rpc.ExecAsk{
		"forward": {Forward: &rpc.ForwardStart{Key: "12345678", Ports: []string{"http"}}},
		"copy":    {Copy: &rpc.CopyStart{Key: "87654321", Path: "new", Into: true}},
	} {
		ask.Do, ask.Owner, ask.Instance = rpc.ExecDoStart, "ann", web0
		first, code := b.exec(ask)
		if code != "" {
			t.Fatalf("%s: %s", name, code)
		}
		if again, code := b.exec(ask); again.Session != first.Session {
			t.Errorf("%s: asked twice it is %q and %q %s", name, first.Session, again.Session, code)
		}
		if _, code := b.exec(rpc.ExecAsk{Do: rpc.ExecDoInput, Owner: "bob", Instance: web0, Session: first.Session,
			Input: &rpc.ExecInput{End: true}}); code != "no-such-session" {
			t.Errorf("%s: another's: %q", name, code)
		}
		if _, code := b.exec(rpc.ExecAsk{Do: rpc.ExecDoInput, Owner: "ann", Instance: web0, Session: first.Session,
			Input: &rpc.ExecInput{End: true}}); code != "" {
			t.Errorf("%s: %q", name, code)
		}
		_, last := b.output(first.Session, never)
		// Connections end in order with their input, a copy without anything has failed.
		if ok := last.Exit != nil && last.Exit.Code == 0; ok != (name == "forward") {
			t.Errorf("%s ended with %+v", name, last)
		}
	}
	for want, ask := range map[string]rpc.ExecAsk{
		"no-such-port": {Forward: &rpc.ForwardStart{Key: "1", Ports: []string{"22"}}},
		"bad-request":  {},
	} {
		ask.Do, ask.Owner, ask.Instance = rpc.ExecDoStart, "ann", web0
		if _, code := b.exec(ask); code != want {
			t.Errorf("%+v: %q, want %q", ask, code, want)
		}
	}
}
