package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/rest/server"
	"github.com/verge-edge/verge/internal/wire"
)

// reader reads what a watch tells.
type reader struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
}

// openWatch opens a watch; who is a bearer token, "" the context's own.
func openWatch(t *testing.T, e client.Context, kinds, who, last string) *reader {
	t.Helper()
	req, err := http.NewRequest("GET", e.Server+"/v1/watch?kinds="+kinds, nil)
	if err != nil {
		t.Fatal(err)
	}
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+who)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := httpsClient(t, e).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() }) // only read
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		data, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s", resp.Status, data)
	}
	return &reader{t: t, resp: resp, in: bufio.NewReader(resp.Body)}
}

// until reads events, as "type kind/key", up to one that begins with end.
func (r *reader) until(end string) (events []string, id string) {
	r.t.Helper()
	what := ""
	for {
		line, err := r.in.ReadString('\n')
		if err != nil {
			r.t.Fatalf("the watch has ended before %q: %v; %q", end, err, events)
		}
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			id = value
		case "event":
			what = value
		case "data":
			kind, key := between(value, `"kind":"`), between(value, `"key":"`)
			if what == "begin" {
				key = value
			}
			events = append(events, strings.TrimSpace(what+" "+strings.TrimPrefix(kind+"/"+key, "/")))
			if strings.HasPrefix(events[len(events)-1], end) {
				return events, id
			}
		}
	}
}

func between(s, start string) string {
	_, s, _ = strings.Cut(s, start)
	s, _, _ = strings.Cut(s, `"`)
	return s
}

func wantEvents(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestWatch(t *testing.T) {
	f := peopled()
	_, _, admin := resttest.Serve(t, f, nil)
	w := openWatch(t, admin, "instances,applications,events,instances", "", "")
	events, _ := w.until("synced")
	wantEvents(t, events, `begin {"full":true}`, "put applications/xapp",
		"put events/1", "put events/2", "put events/3", "put events/4", "put events/5", "put instances/xapp.web.0",
		"synced")
	f.Change(func(f *resttest.Fake) { f.InstanceList[0].Ready = true })
	if got, _ := w.until("put instances"); len(got) != 1 {
		t.Errorf("got %q", got)
	}
	second := f.InstanceList[0]
	second.ID = "xapp.web.1"
	f.Change(func(f *resttest.Fake) { f.InstanceList = append(f.InstanceList, second) })
	_, id := w.until("put instances/xapp.web.1")
	f.Change(func(f *resttest.Fake) {
		f.InstanceList = f.InstanceList[:1]
		f.EventList = append(f.EventList, apiv1.Event{Seq: 6, Subject: "cluster/xsite"})
	})
	rest, _ := w.until("gone instances/xapp.web.1")
	if !slices.Contains(rest, "put events/6") {
		w.until("put events/6")
	}
	_ = w.resp.Body.Close() // only read

	// Who is back goes on, who is another or wants something else does not.
	events, _ = openWatch(t, admin, "applications,events,instances", "", id).until("gone")
	wantEvents(t, slices.DeleteFunc(events, func(s string) bool { return s == "put events/6" }), "begin {}", "synced",
		"gone instances/xapp.web.1")
	for _, c := range [][2]string{{"instances", ""}, {"applications,events,instances", "viewer"}} {
		if events, _ = openWatch(t, admin, c[0], c[1], id).until("synced"); events[0] != `begin {"full":true}` {
			t.Errorf("%v went on: %q", c, events)
		}
	}
	if events, _ = openWatch(t, admin, "instances", "",
		"nonsense").until("synced"); events[0] != `begin {"full":true}` {
		t.Errorf("went on from nonsense: %q", events)
	}
}

// Who watches sees what it may see, and nothing goes on in silence: what it may
// not see any more is gone.
func TestWatchShowsWhatMayBeSeen(t *testing.T) {
	f := peopled()
	_, a, admin := resttest.Serve(t, f, nil)
	nobody := a.Context(t, "", strings.TrimPrefix(admin.Server, "https://"))
	const all = "applications,instances,clusters,workers,namespaces,events"
	for who, want := range map[string][]string{
		"outsider":       {},
		"other-operator": {},
		"nobody":         {},
		"viewer": {"put applications/xapp", "put events/1", "put events/2", "put instances/xapp.web.0",
			"put namespaces/xspace"},
		"operator": {"put clusters/xsite", "put events/2", "put events/3", "put events/4",
			"put instances/xapp.web.0", "put workers/xsite/xmachine"},
	} {
		w := openWatch(t, nobody, all, who, "")
		events, _ := w.until("synced")
		wantEvents(t, events, append(append([]string{`begin {"full":true}`}, want...), "synced")...)
	}
	operator := openWatch(t, nobody, "instances", "operator", "")
	outsider := openWatch(t, nobody, "instances,clusters", "outsider", "")
	operator.until("synced")
	outsider.until("synced")
	f.Change(func(f *resttest.Fake) { f.InstanceList[0].Cluster = "elsewhere" })
	if got, _ := operator.until("gone"); len(got) != 1 {
		t.Errorf("what went out of sight: %q", got)
	}
	f.Change(func(f *resttest.Fake) { f.InstanceList[0].Cluster = "garden"; f.ClusterList[0].Name = "garden" })
	f.Change(func(f *resttest.Fake) { f.InstanceList = f.InstanceList[:0] })
	if _, _, p := ask(t, nobody, "GET", "/v1/watch?kinds="+all, nil); p.Code != "unauthenticated" {
		t.Errorf("without a name: %+v", p)
	}
}

func TestWatchRefusals(t *testing.T) {
	f := &resttest.Fake{Hook: func(_ *resttest.Fake, op string) error {
		if op == "clusters" {
			return rest.Elsewhere("listing clusters", "the root")
		}
		return nil
	}}
	_, _, admin := resttest.Serve(t, f, nil)
	for path, want := range map[string]string{
		"/v1/watch":                           "invalid-request",
		"/v1/watch?kinds=pods":                "invalid-request",
		"/v1/watch?kinds=instances,":          "invalid-request",
		"/v1/watch?kinds=instances,clusters":  "elsewhere",
		"/v1/watch?kinds=clusters&kinds=pods": "elsewhere",
	} {
		resp, _, p := ask(t, admin, "GET", path, nil)
		if p.Code != want || p.Remedy == "" || resp.StatusCode != p.Status {
			t.Errorf("%s: %d %+v, want %s", path, resp.StatusCode, p, want)
		}
	}
	if _, _, p := ask(t, admin, "POST", "/v1/watch?kinds=instances", nil); p.Code != "no-such-method" {
		t.Errorf("POST: %+v", p)
	}
	for range 64 {
		openWatch(t, admin, "instances", "", "").until("synced")
	}
	resp, _, p := ask(t, admin, "GET", "/v1/watch?kinds=instances", nil)
	if p.Code != "too-many-watches" || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %+v", p)
	}
}

// One person cannot take all watches; those that have ended do not count.
func TestWatchesOfOnePerson(t *testing.T) {
	server, a, admin := resttest.Serve(t, peopled(), nil)
	nobody := a.Context(t, "", strings.TrimPrefix(admin.Server, "https://"))
	var last *reader
	for range 16 {
		last = openWatch(t, nobody, "instances", "viewer", "")
		last.until("synced")
	}
	_, _, p := ask(t, nobody, "GET", "/v1/watch?kinds=instances", nil, "Authorization", "Bearer viewer")
	if p.Code != "too-many-watches" || !strings.Contains(p.Detail, "user/viewer") || p.Remedy == "" {
		t.Errorf("one too many: %+v", p)
	}
	openWatch(t, nobody, "instances", "operator", "").until("synced")
	_ = last.resp.Body.Close() // only read
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(20 * time.Second); server.Watching() > 16; {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the one that was closed goes on")
		}
	}
	openWatch(t, nobody, "instances", "viewer", "").until("synced")
}

// A watch that never reads is cut off, and hurts nobody: who reads goes on hearing
// of everything meanwhile.
func TestWatchThatNeverReads(t *testing.T) {
	f := &resttest.Fake{}
	for i := range 2000 {
		f.InstanceList = append(f.InstanceList, apiv1.InstanceView{Instance: wire.Instance{
			ID: fmt.Sprintf("a.b.%04d", i), App: "a", Service: "b", Reason: strings.Repeat("x", 2000),
		}})
	}
	s, _, admin := resttest.Serve(t, f, func(o *server.Options) { o.Timeouts.Watch = 300 * time.Millisecond })
	deaf := rawConn(t, admin)
	if _, err := io.WriteString(deaf, "GET /v1/watch?kinds=instances HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	reads := openWatch(t, admin, "instances", "", "")
	reads.until("synced")
	deadline := time.After(20 * time.Second)
	for n := 0; s.Watching() != 1 || n < 3; n++ {
		f.Change(func(f *resttest.Fake) { f.InstanceList[7].Restarts++ })
		if got, _ := reads.until("put instances/a.b.0007"); len(got) != 1 {
			t.Fatalf("heard of %q", got)
		}
		select {
		case <-deadline:
			t.Fatal("it was not cut off")
		default:
		}
	}
}

// Many that never read cost little memory while they are not cut off yet, however
// much changes.
func TestDeafWatchesCostLittle(t *testing.T) {
	f := &resttest.Fake{}
	for i := range 600 {
		f.InstanceList = append(f.InstanceList, apiv1.InstanceView{Instance: wire.Instance{
			ID: fmt.Sprintf("a.b.%04d", i), App: "a", Service: "b", Reason: strings.Repeat("x", 10_000),
		}})
	}
	s, _, admin := resttest.Serve(t, f, func(o *server.Options) { o.Timeouts.Watch = time.Minute })
	reads := openWatch(t, admin, "instances", "", "")
	reads.until("synced")
	used := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := used()
	const deaf = 12
	for range deaf {
		if _, err := io.WriteString(rawConn(t, admin),
			"GET /v1/watch?kinds=instances HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; n < 4 || s.Watching() <= deaf; n++ {
		f.Change(func(f *resttest.Fake) { f.InstanceList[n].Restarts++ })
		reads.until(fmt.Sprintf("put instances/a.b.%04d", n))
	}
	if grown, all := used()-before, int64(deaf*6<<20); grown > all/5 {
		t.Errorf("%d who do not read cost %d KiB; all that they were not told is %d KiB", deaf, grown>>10, all>>10)
	}
}

func TestCloseEndsWatches(t *testing.T) {
	s, _, admin := resttest.Serve(t, &resttest.Fake{}, nil)
	w := openWatch(t, admin, "instances", "", "")
	w.until("synced")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(w.in); err != nil {
		t.Errorf("it did not end in an orderly way: %v", err)
	}
}

// wobbly is a link that can be cut.
type wobbly struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func newWobbly(t *testing.T, to string) *wobbly {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wobbly{Listener: l}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close() // the client sees that
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, in, out)
			w.mu.Unlock()
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				all.Go(func() {
					_, _ = io.Copy(pair[0], pair[1]) // until it is cut
					_ = pair[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // it is listened on only
		w.cut()
		all.Wait()
	})
	return w
}

func (w *wobbly) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close() // that is what it is for
	}
	w.conns = nil
}

// A client whose connection is lost is told, connects again, and misses nothing.
func TestClientWatchesOverCuts(t *testing.T) {
	f := &resttest.Fake{}
	_, _, admin := resttest.Serve(t, f, nil)
	link := newWobbly(t, strings.TrimPrefix(admin.Server, "https://"))
	admin.Server = "https://" + link.Addr().String()
	c := newClient(t, admin)
	told := make(chan apiv1.WatchEvent)
	ended := make(chan error, 1)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		ended <- watchBy(c.Watch(ctx, client.WatchInstances), func(e apiv1.WatchEvent) error {
			select {
			case told <- e:
			case <-ctx.Done():
			}
			if e.Key == "last" {
				return enough
			}
			return nil
		})
	}()
	hear := func(want string) apiv1.WatchEvent {
		t.Helper()
		select {
		case e := <-told:
			if e.Type != want {
				t.Fatalf("told %+v, want %s", e, want)
			}
			return e
		case <-time.After(20 * time.Second):
			t.Fatalf("not told %s", want)
		}
		return apiv1.WatchEvent{}
	}
	add := func(id string) {
		f.Change(func(f *resttest.Fake) {
			f.InstanceList = append(f.InstanceList, apiv1.InstanceView{Instance: wire.Instance{ID: id}})
		})
	}
	if e := hear(apiv1.WatchBegin); !e.Full {
		t.Errorf("%+v", e)
	}
	hear(apiv1.WatchSynced)
	add("a")
	if e := hear(apiv1.WatchPut); e.Key != "a" || e.Kind != "instances" ||
		!strings.Contains(string(e.Object), `"id":"a"`) {
		t.Errorf("%+v", e)
	}
	for _, id := range []string{"b", "c"} {
		link.cut()
		add(id)
		if e := hear(apiv1.WatchLost); e.Why == "" {
			t.Errorf("%+v", e)
		}
		if e := hear(apiv1.WatchBegin); e.Full {
			t.Error("it did not go on")
		}
		hear(apiv1.WatchSynced)
		if e := hear(apiv1.WatchPut); e.Key != id {
			t.Errorf("%+v", e)
		}
	}
	add("last")
	hear(apiv1.WatchPut)
	if err := <-ended; !errors.Is(err, enough) {
		t.Errorf("ended with %v", err)
	}
	if err := watchBy(c.Watch(t.Context(), "pods"), nil); err == nil {
		t.Error("watched what there is not")
	}
	_ = link.Close() // nobody is there any more
	link.cut()
	wantProblem(t, watchBy(c.Watch(t.Context(), client.WatchInstances), nil), client.CodeUnreachable, "does not answer")
}

// watchBy has tell called until the watch ends, or tell returns an error.
func watchBy(events iter.Seq2[client.WatchEvent, error], tell func(apiv1.WatchEvent) error) error {
	for e, err := range events {
		if err == nil {
			err = tell(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
