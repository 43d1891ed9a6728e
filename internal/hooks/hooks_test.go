package hooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func secretOf(b byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(b), 32)))
}

// world is a keeper over a store that outlives it.
type world struct {
	t     *testing.T
	store *bustest.MemStore
	key   *seal.Key
	k     *Keeper
	said  []string
	mu    sync.Mutex
	// events of the tier
	events *obs.Events
}

func newWorld(t *testing.T) *world {
	t.Helper()
	key, err := seal.Ensure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: bustest.NewMemStore(), key: key}
	t.Cleanup(func() { w.k.Close() })
	w.restart(loopback)
	return w
}

// restart ends the process and begins another one.
func (w *world) restart(allow []netip.Prefix) {
	w.t.Helper()
	w.k.Close()
	w.events = obs.NewEvents(time.Now(), 0, "root")
	w.events.Subscribe(func(e event.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.said = append(w.said, e.Subject()+": "+e.Text)
	})
	k, err := Open(w.t.Context(), Options{
		Store: w.store, Key: w.key, Now: time.Now, Source: "root", Allow: allow, Log: slog.New(slog.DiscardHandler),
		Events: w.events,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.k = k
}

func (w *world) set(namespace, name, url string, spec wire.HookSpec) apiv1.HookView {
	w.t.Helper()
	spec.URL, spec.Plain = url, true
	v, err := w.k.Set(w.t.Context(), namespace, name, "admin/ann", apiv1.HookRequest{HookSpec: spec, Secret: secretOf('a')})
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *world) view(name string) apiv1.HookView {
	w.t.Helper()
	for _, v := range w.k.Hooks("", true) {
		if v.Name == name {
			return v
		}
	}
	w.t.Fatalf("there is no hook %s", name)
	return apiv1.HookView{}
}

// tell tells of one application that has become a revision.
func (w *world) tell(app string, revision int) {
	w.k.Tell(Notice{
		Kind: event.ApplicationApplied, At: time.Now(), Position: fmt.Sprint(revision), Fresh: true,
		Data: wire.HookData{Subject: "application/" + app, Namespace: "shop", Application: app, Revision: uint64(revision)}, //nolint:gosec // small
	})
}

// got is a message as a receiver has it.
type got struct {
	id, at, signature, body string
	apiv1.HookMessage
}

// receiver is a real server that answers as it is told.
type receiver struct {
	*httptest.Server
	messages chan got
	mu       sync.Mutex
	answer   func(w http.ResponseWriter, r *http.Request, g got)
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{messages: make(chan got, 10_000)}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	g := got{id: q.Header.Get("webhook-id"), at: q.Header.Get("webhook-timestamp"), signature: q.Header.Get("webhook-signature"), body: string(body)}
	if err := json.Unmarshal(body, &g.HookMessage); err != nil {
		g.Type = "not JSON: " + err.Error()
	}
	r.mu.Lock()
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		answer(w, q, g)
	}
	r.messages <- g
}

func (r *receiver) answers(f func(w http.ResponseWriter, r *http.Request, g got)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func status(code int) func(http.ResponseWriter, *http.Request, got) {
	return func(w http.ResponseWriter, _ *http.Request, _ got) { w.WriteHeader(code) }
}

// next message; the test's own limit ends a wait for one that never comes.
func (r *receiver) next(t *testing.T) got {
	t.Helper()
	select {
	case g := <-r.messages:
		return g
	case <-time.After(time.Minute):
		t.Fatal("no message has come")
		return got{}
	}
}

// signed computes a signature by the words of the standard alone.
func signed(t *testing.T, secret string, g got) string {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(g.id + "." + g.at + "." + g.body))
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if t.Context().Err() != nil || time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func TestNoticesAreSignedInOrderAndTakenOnce(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	w.set("", "all", r.URL+"/x?token=t0p", wire.HookSpec{On: []string{"*"}})
	const n = 50
	for i := range n {
		w.tell("a", i+1)
	}
	ids := map[string]bool{}
	for i := range n {
		g := r.next(t)
		if g.Data.Revision != uint64(i+1) || g.Type != event.ApplicationApplied.String() || g.Data.Subject != "application/a" || g.Data.Source != "root" {
			t.Fatalf("message %d is %s", i, g.body)
		}
		if ids[g.id] || g.id == "" {
			t.Errorf("message %d has the id %q again", i, g.id)
		}
		ids[g.id] = true
		if want := signed(t, secretOf('a'), g); g.signature != want {
			t.Errorf("message %d is signed %q, want %q", i, g.signature, want)
		}
	}
	eventually(t, "the last one is not taken out", func() bool { return w.view("all").Waiting == 0 })
	v := w.view("all")
	if v.Delivered != n || v.Failures != 0 || v.State != "ready" || v.Last != "200 OK" {
		t.Errorf("%+v", v)
	}
	// Nothing is left on disk but where the application is.
	if left, err := w.store.List(t.Context(), keyQueue); err != nil || len(left) != 0 {
		t.Errorf("%d are still stored, %v", len(left), err)
	}
	w.tell("a", n) // where it is already
	w.restart(loopback)
	w.tell("a", n)
	w.tell("a", n+1)
	if g := r.next(t); g.Data.Revision != n+1 {
		t.Errorf("after a restart came %s", g.body)
	}
}

func TestWhatWaitsSurvivesARestart(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	r.answers(status(503))
	w.set("shop", "one", r.URL, wire.HookSpec{On: []string{"application.*"}})
	for i := range 20 {
		w.tell("a", i+1)
	}
	first := r.next(t)
	eventually(t, "not all is stored", func() bool { return w.view("one").Waiting == 20 && w.view("one").State == "failing" })
	if v := w.view("one"); !strings.Contains(v.Why, "503 Service Unavailable") || v.Next.IsZero() {
		t.Errorf("%+v", v)
	}
	r.answers(nil)
	w.restart(loopback)
	for i := range 20 {
		g := r.next(t)
		for g.Data.Revision == 1 && i > 0 { // tried again meanwhile
			g = r.next(t)
		}
		if g.Data.Revision != uint64(i+1) {
			t.Fatalf("message %d is %s", i, g.body)
		}
		if i == 0 && g.id != first.id {
			t.Errorf("the first is %s now, and was %s", g.id, first.id)
		}
	}
}

func TestOnlyWhoMayIsTold(t *testing.T) {
	t.Parallel()
	w, shop, other, all := newWorld(t), newReceiver(t), newReceiver(t), newReceiver(t)
	w.set("shop", "shop", shop.URL, wire.HookSpec{On: []string{event.ApplicationApplied.String()}})
	w.set("other", "other", other.URL, wire.HookSpec{On: []string{"*"}})
	w.set("", "all", all.URL, wire.HookSpec{On: []string{"*"}})
	note := func(kind event.Kind, subject, namespace string) {
		w.k.Tell(Notice{Kind: kind, At: time.Now(), Position: kind.String(), Fresh: true, Data: wire.HookData{Subject: subject, Namespace: namespace}})
	}
	note(event.ClusterLost, "cluster/edge", "")
	note(event.InstanceFailed, "instance/a.b.0", "shop")
	note(event.ApplicationApplied, "application/a", "shop")
	note(event.ApplicationApplied, "application/z", "other")
	if g := shop.next(t); g.Data.Subject != "application/a" {
		t.Errorf("shop was told %s", g.body)
	}
	if g := other.next(t); g.Data.Subject != "application/z" {
		t.Errorf("other was told %s", g.body)
	}
	for _, want := range []string{"cluster/edge", "instance/a.b.0", "application/a", "application/z"} {
		if g := all.next(t); g.Data.Subject != want {
			t.Errorf("all were told %s, want %s", g.body, want)
		}
	}
	if _, err := w.k.Set(t.Context(), "shop", "x", "", apiv1.HookRequest{HookSpec: wire.HookSpec{URL: "https://x.example", On: []string{"cluster.lost"}}, Secret: secretOf('a')}); err == nil {
		t.Error("a namespace may be told of clusters")
	}
}

func TestReceiversThatMisbehave(t *testing.T) {
	t.Parallel()
	w, elsewhere := newWorld(t), newReceiver(t)
	big := strings.Repeat("x", 1<<20)
	hang := make(chan struct{})
	defer close(hang)
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request, got)
		ok     bool
		want   string
	}{
		"fails": {status(500), false, "500 Internal Server Error"},
		"redirects": {func(w http.ResponseWriter, r *http.Request, _ got) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, false, "307 Temporary Redirect: it is not followed elsewhere"},
		"much": {func(w http.ResponseWriter, _ *http.Request, _ got) {
			for range 10 {
				if _, err := io.WriteString(w, big); err != nil {
					return // cut off
				}
			}
		}, true, "200 OK"},
		"hangs": {func(_ http.ResponseWriter, r *http.Request, _ got) {
			select {
			case <-r.Context().Done():
			case <-hang:
			}
		}, false, "no answer in 1s"},
		"cut": {func(http.ResponseWriter, *http.Request, got) { panic(http.ErrAbortHandler) }, false, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			r.answers(c.answer)
			w.set("", name, r.URL+"/s3cret-path", wire.HookSpec{On: []string{"*"}, WaitSeconds: 1})
			v, err := w.k.Test(t.Context(), "", name, "admin/ann")
			if err != nil || v.OK != c.ok || v.What != c.want {
				t.Errorf("%+v, %v, want %q", v, err, c.want)
			}
		})
	}
	select {
	case g := <-elsewhere.messages:
		t.Errorf("it was followed: %s", g.body)
	default:
	}
}

func TestAddressesThatAreNotForHooks(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	w.set("", "here", r.URL+"/s3cret-path", wire.HookSpec{On: []string{"*"}})
	w.restart(nil)
	v, err := w.k.Test(t.Context(), "", "here", "")
	if err != nil || v.OK || !strings.Contains(v.What, "127.0.0.1 is a loopback address, and hooks may not go there") || strings.Contains(v.What, "s3cret") {
		t.Errorf("%+v, %v", v, err)
	}
	for text, bad := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "169.254.169.254": true, "fe80::1": true, "0.0.0.0": true, "0.1.2.3": true, "::": true, "224.0.0.1": true, "ff02::1": true, "255.255.255.255": true,
		"::ffff:127.0.0.1": true, "::ffff:169.254.169.254": true, "fd00:ec2::254": true, "100.100.100.200": true, "64:ff9b::7f00:1": true, "64:ff9b::a9fe:a9fe": true,
		"10.7.0.1": true, "::ffff:10.7.0.1": true, "64:ff9b::a07:1": true, "2606:2800::7": true,
		"10.0.0.1": false, "192.168.1.1": false, "93.184.216.34": false, "2606:2800:220:1::1": false, "64:ff9b::5db8:d822": false,
	} {
		if why := forbidden(netip.MustParseAddr(text), nil, []netip.Addr{netip.MustParseAddr("10.7.0.1"), netip.MustParseAddr("2606:2800::7")}); (why != "") != bad {
			t.Errorf("%s: %q", text, why)
		}
	}
	if why := forbidden(netip.MustParseAddr("::ffff:127.0.0.1"), loopback, nil); why != "" {
		t.Errorf("what is allowed is refused: %s", why)
	}
}

func TestHooksThatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := wire.HookSpec{URL: "https://x.example/y", On: []string{"*"}}
	with := func(f func(s *wire.HookSpec)) apiv1.HookRequest {
		s := good
		f(&s)
		return apiv1.HookRequest{HookSpec: s, Secret: secretOf('a')}
	}
	for name, r := range map[string]apiv1.HookRequest{
		"no secret":       {HookSpec: good},
		"bad secret":      {HookSpec: good, Secret: "s3cret"},
		"short secret":    {HookSpec: good, Secret: "whsec_" + base64.StdEncoding.EncodeToString([]byte("s3cret"))},
		"nothing":         with(func(s *wire.HookSpec) { s.On = nil }),
		"kind":            with(func(s *wire.HookSpec) { s.On = []string{"instance.exploded"} }),
		"family":          with(func(s *wire.HookSpec) { s.On = []string{"weather.*"} }),
		"operation":       with(func(s *wire.HookSpec) { s.Before = []string{"lunch"} }),
		"failure":         with(func(s *wire.HookSpec) { s.Before, s.OnFailure = []string{"apply"}, "ajar" }),
		"failure of what": with(func(s *wire.HookSpec) { s.OnFailure = "open" }),
		"plain":           with(func(s *wire.HookSpec) { s.URL = "http://x.example" }),
		"scheme":          with(func(s *wire.HookSpec) { s.URL = "file:///etc/passwd" }),
		"user":            with(func(s *wire.HookSpec) { s.URL = "https://u:p@x.example" }),
		"no host":         with(func(s *wire.HookSpec) { s.URL = "https:///x" }),
		"long":            with(func(s *wire.HookSpec) { s.URL = "https://x.example/" + strings.Repeat("y", wire.MaxHookURL) }),
		"authority":       with(func(s *wire.HookSpec) { s.CA = "not PEM" }),
		"wait":            with(func(s *wire.HookSpec) { s.WaitSeconds = 60 }),
		"keep":            with(func(s *wire.HookSpec) { s.KeepSeconds = 1 << 30 }),
	} {
		if _, err := w.k.Set(t.Context(), "", "x", "", r); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list := w.k.Hooks("", true); len(list) != 0 {
		t.Errorf("there is %+v", list)
	}
	if left, err := w.store.List(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("%v is stored, %v", left, err)
	}
}

func TestSecretsOverlapAndAreNowhere(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	w.set("", "x", r.URL, wire.HookSpec{On: []string{"*"}})
	if v, err := w.k.Rotate(t.Context(), "", "x", "admin/ann", secretOf('b'), 0); err != nil || v.Overlap.IsZero() {
		t.Fatalf("%+v, %v", v, err)
	}
	w.restart(loopback)
	w.tell("a", 1)
	g := r.next(t)
	if want := signed(t, secretOf('b'), g) + " " + signed(t, secretOf('a'), g); g.signature != want {
		t.Errorf("signed %q, want %q", g.signature, want)
	}
	if v, err := w.k.Rotate(t.Context(), "", "x", "admin/ann", secretOf('c'), -1); err != nil || !v.Overlap.IsZero() {
		t.Fatalf("%+v, %v", v, err)
	}
	w.tell("a", 2)
	if g = r.next(t); g.signature != signed(t, secretOf('c'), g) {
		t.Errorf("signed %q, want by the newest alone", g.signature)
	}
	all, err := w.store.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		for _, s := range []byte("abc") {
			if text := string(e.Value); strings.Contains(text, strings.TrimPrefix(secretOf(s), "whsec_")) || strings.Contains(text, strings.Repeat(string(s), 32)) {
				t.Errorf("%s has secret %c in it", e.Key, s)
			}
		}
	}
	data, err := json.Marshal(w.view("x"))
	if err != nil || strings.Contains(string(data), "whsec") || strings.Contains(string(data), "sealed") {
		t.Errorf("it shows %s, %v", data, err)
	}
	// Another root's key opens nothing: it is said, and nothing is sent unsigned.
	if w.key, err = seal.Ensure(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	w.restart(loopback)
	if v := w.view("x"); v.State != "broken" || !strings.Contains(v.Why, "set it again") {
		t.Errorf("%+v", v)
	}
}

func TestGates(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	ask := func(op string) ([]string, error) {
		return w.k.Ask(t.Context(), wire.HookData{Operation: op, Subject: "application/a", Namespace: "shop", Application: "a", By: "user/bob", Descriptor: "application: a"})
	}
	if warned, err := ask(wire.GateApply); err != nil || warned != nil {
		t.Fatalf("nobody is to be asked: %v, %v", warned, err)
	}
	says := func(text string) func(http.ResponseWriter, *http.Request, got) {
		return func(w http.ResponseWriter, _ *http.Request, _ got) { _, _ = io.WriteString(w, text) }
	}
	code := func(err error) string {
		var p *wire.Problem
		if errors.As(err, &p) {
			return p.Code
		}
		return fmt.Sprint(err)
	}
	for _, onFailure := range []string{wire.HookClosed, wire.HookOpen} { // with the secret that it has, the second time
		w.set("shop", "gate", r.URL, wire.HookSpec{Before: []string{wire.GateApply}, OnFailure: onFailure})
		silent := map[string]string{wire.HookClosed: wire.CodeHookSilent, wire.HookOpen: "<nil>"}[onFailure]
		for what, c := range map[string]struct {
			answer func(http.ResponseWriter, *http.Request, got)
			code   string
			words  string
		}{
			"agrees":    {says(`{"allow": true}`), "<nil>", ""},
			"refuses":   {says(`{"allow": false, "reason": "not on\u001b[31m Friday"}`), wire.CodeHookRefused, "not on [31m Friday"},
			"no reason": {says(`{"allow": false}`), wire.CodeHookRefused, "it gives no reason"},
			"empty":     {says(``), silent, "its answer is not"},
			"half":      {says(`{"reason": "x"}`), silent, "its answer is not"},
			"not JSON":  {says(`OK`), silent, "its answer is not"},
			"too much":  {says(`{"allow": true, "reason": "` + strings.Repeat("x", maxReadAnswer) + `"}`), silent, "longer than"},
			"fails":     {status(500), silent, "500 Internal Server Error"},
			"fails well": {func(w http.ResponseWriter, _ *http.Request, _ got) {
				w.WriteHeader(500)
				_, _ = io.WriteString(w, `{"allow": true}`)
			}, silent, "500"},
		} {
			r.answers(c.answer)
			warned, err := ask(wire.GateApply)
			if code(err) != c.code {
				t.Errorf("%s, %s: %v, want %s", onFailure, what, err, c.code)
			}
			if text := fmt.Sprint(err, warned); c.words != "" && !strings.Contains(text, c.words) {
				t.Errorf("%s, %s: it says %s, want %q", onFailure, what, text, c.words)
			}
			g := r.next(t)
			if g.Type != "before.apply" || g.Data.By != "user/bob" || g.Data.Descriptor != "application: a" || g.signature != signed(t, secretOf('a'), g) {
				t.Errorf("it was asked %s", g.body)
			}
		}
	}
	r.answers(says(`{"allow": false, "reason": "no"}`))
	if _, err := ask(wire.GateDelete); err != nil {
		t.Errorf("it is not asked before that: %v", err)
	}
	if _, err := w.k.Ask(t.Context(), wire.HookData{Operation: wire.GateApply, Namespace: "other"}); err != nil {
		t.Errorf("it is not asked about that namespace: %v", err)
	}
	if _, err := ask(wire.GateApply); code(err) != wire.CodeHookRefused {
		t.Errorf("it refuses: %v", err)
	}
	if _, err := w.k.Pause(t.Context(), "shop", "gate", "user/bob"); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(wire.GateApply); err != nil {
		t.Errorf("a paused one is not asked: %v", err)
	}
	if v := w.view("gate"); v.State != "paused" || v.Refused == 0 || v.Allowed == 0 || v.Silent == 0 {
		t.Errorf("%+v", v)
	}
}

func TestWhatIsTooMuchOrTooOldIsGivenUpAndCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		// No network in here: 127.0.0.1:1 is refused by the guard, which is as good.
		w.restart(nil)
		w.set("", "x", "http://127.0.0.1:1/", wire.HookSpec{On: []string{"*"}, KeepSeconds: 3600})
		for i := range maxWaiting + 30 {
			w.tell("a", i+1)
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		v := w.view("x")
		if v.Waiting != maxWaiting || v.Dropped != 30 || !strings.Contains(v.DropWhy, "the oldest were dropped") || v.Failures == 0 {
			t.Errorf("%+v", v)
		}
		w.restart(nil)
		if v := w.view("x"); v.Waiting != maxWaiting || v.Dropped != 30 {
			t.Errorf("after a restart: %+v", v)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		v = w.view("x")
		if v.Waiting != 0 || v.Dropped != maxWaiting+30 || v.DropWhy != "not delivered in 1h0m0s" {
			t.Errorf("%+v", v)
		}
		// Between an hour and the attempts that gave up 300 at a time each, 5 minutes apart.
		if v.Failures < 12 || v.Failures > 60 {
			t.Errorf("%d attempts in two hours", v.Failures)
		}
		if left, err := w.store.List(t.Context(), keyQueue); err != nil || len(left) != 0 {
			t.Errorf("%d are still stored, %v", len(left), err)
		}
		if len(w.said) == 0 || !strings.Contains(w.said[0], "hook/x: ") || !strings.Contains(w.said[0], "dropped") {
			t.Errorf("it was said %q", w.said)
		}
		w.k.Close()
	})
}

func TestPauseResumeAndGone(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	w.set("", "x", r.URL, wire.HookSpec{On: []string{"*"}})
	if _, err := w.k.Pause(t.Context(), "", "x", "admin/ann"); err != nil {
		t.Fatal(err)
	}
	w.tell("a", 1)
	eventually(t, "it does not wait", func() bool { return w.view("x").Waiting == 1 })
	w.restart(loopback)
	if v := w.view("x"); v.State != "paused" || !strings.Contains(v.Why, "admin/ann") || v.Waiting != 1 {
		t.Errorf("%+v", v)
	}
	if _, err := w.k.Resume(t.Context(), "", "x"); err != nil {
		t.Fatal(err)
	}
	if g := r.next(t); g.Data.Revision != 1 {
		t.Errorf("%s", g.body)
	}
	r.answers(status(http.StatusGone))
	w.tell("a", 2)
	eventually(t, "410 does not pause it", func() bool { return w.view("x").State == "paused" })
	if v := w.view("x"); !strings.Contains(v.Why, "410") || v.Waiting != 1 {
		t.Errorf("%+v", v)
	}
	// A failing one is tried at once when somebody says so.
	r.answers(status(500))
	if _, err := w.k.Resume(t.Context(), "", "x"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is not tried", func() bool { return w.view("x").State == "failing" })
	if _, err := w.k.Remove(t.Context(), "", "x"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "something of it is still stored", func() bool {
		left, err := w.store.List(t.Context(), "")
		return err == nil && len(left) == 0
	})
	if _, err := w.k.Resume(t.Context(), "", "x"); err == nil {
		t.Error("it is still there")
	}
}

// What was not seen to happen is told to those hooks that were there then, and once.
func TestHistoriesAreToldFromWhereTheyWere(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	before := time.Now().Add(-time.Hour)
	w.set("", "x", r.URL, wire.HookSpec{On: []string{event.InstanceFailed.String(), event.InstanceEnded.String()}})
	after := time.Now().Add(time.Hour)
	history := func(fresh bool, steps ...string) (list []Notice) {
		for _, s := range steps {
			kind, at := event.InstanceFailed, after
			if s == "old" {
				at = before
			}
			list = append(list, Notice{Kind: kind, At: at, Position: s, Fresh: fresh, Data: wire.HookData{Subject: "instance/a.b.0", Namespace: "shop", What: s}})
		}
		return list
	}
	want := func(words ...string) {
		t.Helper()
		for _, word := range words {
			if g := r.next(t); g.Data.What != word {
				t.Errorf("%s came, want %s", g.Data.What, word)
			}
		}
	}
	w.k.Tell(history(false, "old", "one")...)
	want("one")
	w.k.Tell(history(true, "old", "one", "two", "three")...)
	want("two", "three")
	eventually(t, "it is not taken out", func() bool { return w.view("x").Waiting == 0 })
	w.restart(loopback) // which has not seen what is reported now
	w.k.Tell(history(false, "old", "one", "two", "three")...)
	w.k.Tell(history(false, "old", "one", "two", "three", "four")...)
	want("four")
	if s := w.k.Subjects("instance/"); len(s) != 1 || s["instance/a.b.0"] != "shop" {
		t.Errorf("subjects %v", s)
	}
	end := Notice{Kind: event.InstanceEnded, At: after, Position: Ended, Fresh: true, Last: true, Data: wire.HookData{Subject: "instance/a.b.0", What: "gone"}}
	w.k.Tell(end)
	want("gone")
	if s := w.k.Subjects(""); len(s) != 0 {
		t.Errorf("subjects %v", s)
	}
	// One that has said itself that it ended is not told to have ended again.
	w.k.Tell(Notice{Kind: event.InstanceEnded, At: after, Position: Ended + " by itself", Fresh: true, Data: wire.HookData{Subject: "instance/a.b.1", What: "itself"}})
	w.k.Tell(Notice{Kind: event.InstanceEnded, At: after, Position: Ended, Fresh: true, Last: true, Data: wire.HookData{Subject: "instance/a.b.1", What: "twice"}})
	w.k.Tell(history(true, "old", "five")[1])
	want("itself", "five")
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := Backoff(n, 0, 0); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
		if got := Backoff(n, 1, 0); got != want-want/5 {
			t.Errorf("%d, by chance: %s", n, got)
		}
	}
	if got := Backoff(1, 0, time.Minute); got != time.Minute {
		t.Errorf("asked for a minute: %s", got)
	}
	if got := Backoff(1, 0, time.Hour); got != 5*time.Minute {
		t.Errorf("asked for an hour: %s", got)
	}
}

// A store that refuses for a while loses nothing, and nobody waits for it.
func TestAStoreThatRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key, err := seal.Ensure(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		s := bustest.NewMemStore()
		k, err := Open(t.Context(), Options{Store: s, Key: key, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, k: k}
		w.set("", "x", "http://127.0.0.1:1/", wire.HookSpec{On: []string{"*"}})
		s.FailWrites(errors.New("no space left on device"))
		for i := range 1000 {
			w.tell("a", i+1)
		}
		if _, err := k.Set(t.Context(), "", "y", "", apiv1.HookRequest{HookSpec: wire.HookSpec{URL: "https://x.example", On: []string{"*"}}, Secret: secretOf('a')}); err == nil {
			t.Error("it was set without being stored")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if v := w.view("x"); v.Waiting != 0 || len(k.Hooks("", true)) != 1 {
			t.Errorf("%+v", v)
		}
		s.FailWrites(nil)
		time.Sleep(storePause)
		synctest.Wait()
		if v := w.view("x"); v.Waiting != 1000 || v.Dropped != 0 {
			t.Errorf("%+v", v)
		}
		k.Close()
	})
}

func TestTLSIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.StartTLS()
	defer s.Close()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	test := func(ca string) apiv1.HookTested {
		t.Helper()
		r := apiv1.HookRequest{HookSpec: wire.HookSpec{URL: "https://127.0.0.1:" + port, On: []string{"*"}, CA: ca}, Secret: secretOf('a')}
		if _, err := w.k.Set(t.Context(), "", "x", "", r); err != nil {
			t.Fatal(err)
		}
		v, err := w.k.Test(t.Context(), "", "x", "")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := test(""); v.OK || !strings.Contains(v.What, "certificate") {
		t.Errorf("a stranger's certificate: %+v", v)
	}
	if v := test(pemOf(s)); !v.OK {
		t.Errorf("with its authority: %+v", v)
	}
}

func pemOf(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// What could not even be noted is counted, and told when its subject changes again.
func TestWhatOverflowsIsCounted(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.set("", "all", r.URL, wire.HookSpec{On: []string{event.ApplicationApplied.String()}})
	overflow := func() float64 {
		for _, s := range w.k.Samples() {
			if s.Name == "verge_hook_overflow_total" {
				return s.Value
			}
		}
		t.Fatal("it is not among the figures")
		return 0
	}
	w.k.changing.Lock() // the store does not get any further
	for n := range maxPending/2 + 3 {
		w.tell(fmt.Sprintf("a%d", n), 1) // a notice, and how far its subject is
	}
	w.k.changing.Unlock()
	if n := overflow(); n != 3 {
		t.Errorf("%g times nothing was noted, want 3", n)
	}
	eventually(t, "what was noted is not stored", func() bool {
		w.k.mu.Lock()
		defer w.k.mu.Unlock()
		return len(w.k.pending) == 0
	})
	last := fmt.Sprintf("a%d", maxPending/2+2)
	w.tell(last, 2)
	for r.next(t).Data.Application != last { // it was left out, and is told now
	}
	if n := overflow(); n != 3 {
		t.Errorf("%g, want 3 as before", n)
	}
}
