package engine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// exec takes a step of a session; code is that of a problem, "" for none.
func (b *bench) exec(q rpc.ExecAsk) (a rpc.ExecAnswer, code string) {
	b.t.Helper()
	body, err := json.Marshal(q)
	if err != nil {
		b.t.Fatal(err)
	}
	status, text := b.do(http.MethodPost, "/v1/exec", body)
	if status == http.StatusOK {
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			b.t.Fatal(err)
		}
		return a, ""
	}
	var p wire.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		b.t.Fatalf("%d %s", status, text)
	}
	return a, p.Code
}

// session starts a session of "ann" in web0.
func (b *bench) session(script string) string {
	b.t.Helper()
	a, code := b.exec(rpc.ExecAsk{Do: rpc.ExecDoStart, Owner: "ann", Instance: web0, Start: &rpc.ExecStart{
		Key: wire.NewID(), Command: []string{"sh", "-c", script}, Stdin: true,
	}})
	if code != "" {
		b.t.Fatalf("a session was refused: %s", code)
	}
	return a.Session
}

// output takes output until ok says so or the session ends.
func (b *bench) output(session string, ok func(text string) bool) (text string, last rpc.ExecOutput) {
	b.t.Helper()
	var at rpc.ExecOffset
	for {
		at.WaitMs = 10_000
		a, code := b.exec(rpc.ExecAsk{Do: rpc.ExecDoOutput, Owner: "ann", Instance: web0, Session: session,
			Output: &at})
		if code != "" {
			b.t.Fatalf("output was refused: %s", code)
		}
		text += string(a.Output.Stdout)
		at.Stdout += int64(len(a.Output.Stdout))
		at.Stderr += int64(len(a.Output.Stderr))
		if a.Output.Ended || ok(text) {
			return text, *a.Output
		}
	}
}

// json gets what the engine says at a path.
func (b *bench) json(path string, v any) {
	b.t.Helper()
	status, text := b.do(http.MethodGet, path, nil)
	if status != http.StatusOK || json.Unmarshal([]byte(text), v) != nil {
		b.t.Fatalf("%s: %d %s", path, status, text)
	}
}

// grouped says whether what runs beside an instance counts as its own.
func (b *bench) grouped() bool {
	missing, ok := b.info().Missing["process"]
	return !ok || !strings.Contains(missing, "no control groups")
}

func never(string) bool { return false }

func TestSessions(t *testing.T) {
	b := newBench(t)
	b.apply(serverOrder(t))
	status := b.ready(0)

	// The surroundings of the instance.
	s := b.session("echo $VERGE_INSTANCE $PORT; pwd; cat /proc/self/cgroup; echo $VERGE_EXEC; exit 9")
	text, last := b.output(s, never)
	want := fmt.Sprintf("%s %d\n%s/instances/%s/work\n", web0, status.Ports["http"], b.dir, web0)
	if last.Exit == nil || last.Exit.Code != 9 || !strings.HasPrefix(text, want) || !strings.HasSuffix(text, s+"\n") {
		t.Errorf("%q %+v", text, last)
	}
	// It can be asked again until it is ended.
	again, code := b.exec(rpc.ExecAsk{Do: rpc.ExecDoOutput, Owner: "ann", Instance: web0, Session: s,
		Output: &rpc.ExecOffset{Stdout: int64(len(text))}})
	if code != "" || again.Output.Exit == nil {
		t.Errorf("asked again: %+v %s", again, code)
	}
	if _, code := b.exec(rpc.ExecAsk{Do: rpc.ExecDoEnd, Owner: "ann", Instance: web0, Session: s}); code != "" {
		t.Errorf("end: %s", code)
	}
	if _, code := b.exec(rpc.ExecAsk{Do: rpc.ExecDoEnd, Owner: "ann", Instance: web0,
		Session: s}); code != "no-such-session" {
		t.Errorf("end of what has ended: %q", code)
	}

	// It belongs to who opened it, and the same key is the same session.
	start := rpc.ExecAsk{Do: rpc.ExecDoStart, Owner: "ann", Instance: web0,
		Start: &rpc.ExecStart{Key: "12345678", Command: []string{"cat"}, Stdin: true}}
	first, _ := b.exec(start)
	if again, code := b.exec(start); again.Session != first.Session {
		t.Errorf("asked twice: %q and %q %s", first.Session, again.Session, code)
	}
	start.Owner = "bob"
	if bobs, code := b.exec(start); bobs.Session == first.Session || code != "" {
		t.Errorf("another's key: %q %s", bobs.Session, code)
	}
	for _, do := range []rpc.ExecAsk{{Do: rpc.ExecDoEnd}, {Do: rpc.ExecDoOutput, Output: &rpc.ExecOffset{}},
		{Do: rpc.ExecDoInput, Input: &rpc.ExecInput{}}} {
		do.Owner, do.Session, do.Instance = "bob", first.Session, web0
		if _, code := b.exec(do); code != "no-such-session" {
			t.Errorf("%s of another's session: %q", do.Do, code)
		}
	}
	if _, code := b.exec(rpc.ExecAsk{Do: rpc.ExecDoEnd, Owner: "ann", Session: first.Session,
		Instance: "shop.web.1"}); code != "no-such-session" {
		t.Errorf("in another instance: %q", code)
	}
	if a, code := b.exec(rpc.ExecAsk{Do: rpc.ExecDoInput, Owner: "ann", Instance: web0, Session: first.Session,
		Input: &rpc.ExecInput{Data: []byte("hello"), End: true}}); a.Taken != 5 || code != "" {
		t.Errorf("took %d %s", a.Taken, code)
	}
	if text, last := b.output(first.Session, never); text != "hello" || last.Exit == nil {
		t.Errorf("%q %+v", text, last)
	}

	// Two of bob's and ann's have ended or run; there is room for three more.
	for range 3 {
		b.session("sleep 1000")
	}
	for want, ask := range map[string]rpc.ExecAsk{
		"too-many-sessions": {Do: rpc.ExecDoStart, Instance: web0, Start: &rpc.ExecStart{Command: []string{"true"}}},
		"no-instance": {Do: rpc.ExecDoStart, Instance: "shop.web.7",
			Start: &rpc.ExecStart{Command: []string{"true"}}},
		"no-command": {Do: rpc.ExecDoStart, Instance: "shop.web.8",
			Start: &rpc.ExecStart{Command: []string{""}}},
		"no-such-session": {Do: "dance"},
	} {
		if _, code := b.exec(ask); code != want {
			t.Errorf("%+v: %q, want %q", ask, code, want)
		}
	}
	if status, text := b.do(http.MethodPost, "/v1/exec", []byte("{")); status != http.StatusBadRequest {
		t.Errorf("no question: %d %s", status, text)
	}
}

func TestSessionEndsWithItsInstance(t *testing.T) {
	b := newBench(t)
	b.apply(serverOrder(t))
	b.ready(0)
	s := b.session("trap '' TERM; echo $$; sleep 1000")
	text, _ := b.output(s, func(text string) bool { return strings.HasSuffix(text, "\n") })
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	b.apply()
	if _, last := b.output(s, never); last.Why != "the instance has ended" {
		t.Errorf("%+v", last)
	}
	if alive(pid) {
		t.Error("the program is left")
	}
	b.until("the instance is forgotten", func() bool { return b.status(web0).ID == "" })
	if _, code := b.exec(rpc.ExecAsk{Do: rpc.ExecDoStart, Instance: web0,
		Start: &rpc.ExecStart{Command: []string{"true"}}}); code != "no-instance" {
		t.Errorf("in an instance that is gone: %q", code)
	}
}

// An engine that dies leaves no program of a session to its successor.
func TestSessionsEndWithTheirEngine(t *testing.T) {
	b := newBench(t)
	b.apply(serverOrder(t))
	before := b.ready(0)
	s := b.session("trap '' TERM HUP; echo $$; setsid sh -c 'echo $$; sleep 1000' & sleep 1000")
	text, _ := b.output(s, func(text string) bool { return strings.Count(text, "\n") == 2 })
	b.kill()
	b.start()
	for f := range strings.FieldsSeq(text) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	if after := b.ready(0); after.PID != before.PID {
		t.Errorf("the instance was started again")
	}
	if _, code := b.exec(rpc.ExecAsk{Do: rpc.ExecDoOutput, Owner: "ann", Instance: web0, Session: s,
		Output: &rpc.ExecOffset{}}); code != "no-such-session" {
		t.Errorf("a session of the dead engine: %q", code)
	}
}
