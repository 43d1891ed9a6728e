package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
)

const mixedHost = "mixed.test"

// mixed is a service whose requests are routed one by one, and a store beside it
// that is never changed.
const mixed = `application: mixed
services:
  front:
    command: [testprogram]
    replicas: 2
    policy: fastest
    ports:
      - name: http
        ingress: {host: ` + mixedHost + `}
    readiness:
      http: {path: /healthz}
  store:
    command: [testprogram]
    replicas: 1
    ports:
      - name: http
        ingress: {host: ` + storeHost + `}
    readiness:
      http: {path: /healthz}
`

// mixedTime is how long the traffic of TestMixedTraffic lasts: make traffic says more.
func mixedTime(t *testing.T) time.Duration {
	said := os.Getenv("VERGE_TRAFFIC")
	if said == "" {
		return 6 * time.Second
	}
	return must[time.Duration](t)(time.ParseDuration(said))
}

// mixture sends requests of several kinds and notes what went wrong with each kind.
type mixture struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	client *http.Client
	http2  *http.Client

	mu     sync.Mutex
	good   map[string]int
	failed map[string][]error
	stored []string // keys that the store has acknowledged
}

// kinds of requests, and how often each is sent to each gateway.
var mixedKinds = []struct {
	name  string
	every time.Duration
	send  func(m *mixture, ctx context.Context, gateway string, n int) error
}{
	{"get", 15 * time.Millisecond, (*mixture).get},
	{"small body", 30 * time.Millisecond, func(m *mixture, ctx context.Context, g string, n int) error { return m.upload(ctx, g, n, 1<<10, true) }},
	{"large body", 150 * time.Millisecond, func(m *mixture, ctx context.Context, g string, n int) error {
		return m.upload(ctx, g, n, 243<<10, true)
	}},
	{"chunked body", 120 * time.Millisecond, func(m *mixture, ctx context.Context, g string, n int) error {
		return m.upload(ctx, g, n, 20<<10, false)
	}},
	{"stream", 400 * time.Millisecond, (*mixture).stream},
	{"upgrade", 300 * time.Millisecond, (*mixture).upgrade},
	{"HTTP/2", 60 * time.Millisecond, (*mixture).two},
	{"store", 60 * time.Millisecond, (*mixture).store},
	{"left by its client", 90 * time.Millisecond, (*mixture).leave},
}

func sendMixture(t *testing.T, gateways ...string) *mixture {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m := &mixture{
		cancel: cancel, good: map[string]int{}, failed: map[string][]error{},
		client: &http.Client{Timeout: loadPatience, Transport: &http.Transport{MaxIdleConnsPerHost: 16}},
	}
	var two http.Protocols
	two.SetUnencryptedHTTP2(true)
	m.http2 = &http.Client{Timeout: loadPatience, Transport: &http.Transport{Protocols: &two}}
	t.Cleanup(func() { m.stop() })
	for _, g := range gateways {
		for _, k := range mixedKinds {
			m.wg.Go(func() {
				ticker := time.NewTicker(k.every)
				defer ticker.Stop()
				for n := 0; ctx.Err() == nil; n++ {
					// What has begun is ended, so it does not get ctx.
					err := k.send(m, context.Background(), g, n)
					m.note(k.name, err)
					select {
					case <-ctx.Done():
					case <-ticker.C:
					}
				}
			})
		}
	}
	return m
}

func (m *mixture) note(kind string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.failed[kind] = append(m.failed[kind], fmt.Errorf("at %s: %w", time.Now().Format("15:04:05.000"), err))
		return
	}
	m.good[kind]++
}

func (m *mixture) stop() {
	m.cancel()
	m.wg.Wait()
	m.client.CloseIdleConnections()
	m.http2.CloseIdleConnections()
}

// ask sends one request and returns the answer, which must be 200, with its body.
func (m *mixture) ask(ctx context.Context, client *http.Client, method, gateway, host, path string, body io.Reader) (*http.Response, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+gateway+path, body)
	if err != nil {
		return nil, "", err
	}
	r.Host = host
	resp, err := client.Do(r)
	if err != nil {
		return nil, "", err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // read to its end
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", resp.Status, strings.TrimSpace(string(text)))
	}
	return resp, string(text), err
}

func (m *mixture) get(ctx context.Context, gateway string, _ int) error {
	return m.who(ctx, m.client, gateway)
}

// two is get over HTTP/2, many on one connection.
func (m *mixture) two(ctx context.Context, gateway string, _ int) error {
	return m.who(ctx, m.http2, gateway)
}

func (m *mixture) who(ctx context.Context, client *http.Client, gateway string) error {
	_, text, err := m.ask(ctx, client, http.MethodGet, gateway, mixedHost, "/whoami", nil)
	if err == nil && !strings.Contains(text, "mixed.front.") {
		err = fmt.Errorf("answered %.100q", text)
	}
	return err
}

// upload sends a body that is different each time, with its length told or not, and
// compares what arrived, and the trailer of the answer.
func (m *mixture) upload(ctx context.Context, gateway string, n, size int, told bool) error {
	body := bytes.Repeat([]byte(strconv.Itoa(n)+";"), size)[:size]
	var from io.Reader = bytes.NewReader(body)
	if !told {
		from = io.MultiReader(from) // of which nobody knows the length
	}
	resp, text, err := m.ask(ctx, m.client, http.MethodPost, gateway, mixedHost, "/upload", from)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	if got := strings.TrimSpace(text); got != strconv.Itoa(size) || resp.Trailer.Get("Sum") != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("of %d bytes %s arrived, with sum %q", size, got, resp.Trailer.Get("Sum"))
	}
	return nil
}

// stream reads some events of an answer that has no end.
func (m *mixture) stream(ctx context.Context, gateway string, _ int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+gateway+"/stream", nil)
	if err != nil {
		return err
	}
	r.Host = mixedHost
	resp, err := m.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it is left before its end
	lines := bufio.NewScanner(resp.Body)
	for n := range 6 {
		if !lines.Scan() || lines.Text() != strconv.Itoa(n) {
			return fmt.Errorf("%s: line %d is %q: %w", resp.Status, n, lines.Text(), errors.Join(lines.Err(), io.ErrUnexpectedEOF))
		}
	}
	return nil
}

// upgrade makes another protocol of a connection, in which what is sent comes back.
func (m *mixture) upgrade(ctx context.Context, gateway string, n int) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", gateway)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(loadPatience)); err != nil {
		return err
	}
	said := fmt.Sprintf("hello %d\n", n)
	// The first words come with the head: nothing may be lost between the two.
	if _, err := fmt.Fprintf(c, "GET /echo HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", mixedHost); err != nil {
		return err
	}
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("upgrade: %s", resp.Status)
	}
	for range 3 {
		if _, err := io.WriteString(c, said); err != nil {
			return err
		}
		if got, err := in.ReadString('\n'); err != nil || got != said {
			return fmt.Errorf("said %q, heard %q: %w", said, got, err)
		}
	}
	return nil
}

// store writes what must not be lost once it was acknowledged.
func (m *mixture) store(ctx context.Context, gateway string, n int) error {
	key := fmt.Sprintf("%s-%d", gateway, n)
	_, _, err := m.ask(ctx, m.client, http.MethodPost, gateway, storeHost, "/put?key="+key, nil)
	if err == nil {
		m.mu.Lock()
		m.stored = append(m.stored, key)
		m.mu.Unlock()
	}
	return err
}

// leave sends half of a request, or leaves before the answer.
func (m *mixture) leave(ctx context.Context, gateway string, n int) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", gateway)
	if err != nil {
		return err
	}
	parts := []string{
		"GET /whoami HTTP/1.1\r\nHost: " + mixedHost,
		"POST /upload HTTP/1.1\r\nHost: " + mixedHost + "\r\nContent-Length: 1000\r\n\r\nhalf",
		"GET /stream HTTP/1.1\r\nHost: " + mixedHost + "\r\n\r\n",
	}
	_, err = io.WriteString(c, parts[n%len(parts)])
	return errors.Join(err, c.Close())
}

// TestMixedTraffic sends requests of all kinds while replicas come and go in order,
// and some die: the first must not cost a single request, the others only what
// was sent to them and cannot be sent twice. Nothing that was acknowledged is
// lost, and afterwards the routers hold no more than before.
func TestMixedTraffic(t *testing.T) {
	t.Parallel() // it waits more than it computes
	w := newWorld(t, 2, "edge")
	w.root.apply(mixed)
	gateways := []string{w.worker["edge-1"].gateway, w.worker["edge-2"].gateway}
	for _, g := range gateways {
		for _, host := range []string{mixedHost, storeHost} {
			eventually(t, 10*time.Second, g+" routes to "+host, func() error {
				_, err := fetch(g, host, "/whoami")
				return err
			})
		}
	}
	w.run("warm", func(t *testing.T) { w.mixedFor(t, gateways, time.Second, nil) })
	before := w.held(t)
	w.run("in order", func(t *testing.T) {
		w.mixedFor(t, gateways, mixedTime(t), []func(){
			func() { w.root.ok("scale", "mixed.front", "--replicas", "4") },
			func() { w.root.ok("restart", "instance/mixed.front.0") },
			func() { w.root.ok("scale", "mixed.front", "--replicas", "2") },
			func() { w.root.ok("restart", "mixed.front") },
		})
	})
	w.run("by death", w.mixedDeaths)
	for name, was := range before {
		eventually(t, 60*time.Second, name+" holds no more than before", func() error {
			// What a busy engine has not collected yet it gives back when it rests.
			if now := w.held(t)[name]; now.goroutines > was.goroutines+20 || now.files > was.files+10 || now.kilobytes > was.kilobytes*3/2+16<<10 {
				return fmt.Errorf("%+v, and before %+v", now, was)
			}
			return nil
		})
	}
}

// mixedFor sends traffic while the steps are done in turn, for at least so long, and
// expects that nothing fails.
func (w *world) mixedFor(t *testing.T, gateways []string, d time.Duration, steps []func()) {
	t.Helper()
	m := sendMixture(t, gateways...)
	end := time.NewTimer(d)
	defer end.Stop()
	for over := false; !over; {
		for _, step := range steps {
			step()
		}
		select {
		case <-end.C:
			over = true
		default:
			if len(steps) == 0 {
				<-end.C
				over = true
			}
		}
	}
	m.stop()
	for _, k := range mixedKinds {
		for i, err := range m.failed[k.name] {
			if i < 3 {
				t.Errorf("%s: %v", k.name, err)
			}
		}
		if n := len(m.failed[k.name]); n > 0 {
			t.Errorf("%s: %d of %d failed", k.name, n, n+m.good[k.name])
		}
		if m.good[k.name] == 0 {
			t.Errorf("%s: none was answered", k.name)
		}
	}
	w.storeHas(t, gateways[0], m.stored)
	t.Logf("answered: %v", m.good)
}

// mixedDeaths kills instances; what may be sent twice is, the rest is told.
func (w *world) mixedDeaths(t *testing.T) {
	gateways := []string{w.worker["edge-1"].gateway, w.worker["edge-2"].gateway}
	m := sendMixture(t, gateways...)
	for range 2 {
		was := w.root.instances("mixed")
		for id, pid := range w.pids("mixed") {
			if !strings.HasPrefix(id, "mixed.front.") {
				continue
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, 15*time.Second, id+" is back", func() error {
				// Not holds: the application as a whole says nothing of one process.
				// That it is ready may have been said before it was killed.
				i := w.root.instances("mixed")[id]
				if now := w.pids("mixed")[id]; !i.Ready || i.Restarts == was[id].Restarts || now == pid || now == 0 {
					return fmt.Errorf("it is %s, pid %d, %d restarts", i.State, now, i.Restarts)
				}
				return nil
			})
		}
	}
	m.stop()
	for _, err := range m.failed["get"] {
		t.Errorf("a request that may be sent twice failed: %v", err)
	}
	if n, good := len(m.failed["small body"]), m.good["small body"]; n > 8 || good == 0 {
		t.Errorf("small bodies: %d failed at four deaths, %d were answered; the first: %v", n, good, slices.Concat(m.failed["small body"], []error{nil})[0])
	}
	for _, err := range m.failed["store"] {
		t.Errorf("the store did not die, and a request to it failed: %v", err)
	}
	w.storeHas(t, gateways[0], m.stored)
}

// storeHas checks that every key that was acknowledged is in the store.
func (w *world) storeHas(t *testing.T, gateway string, keys []string) {
	t.Helper()
	list := make([]sent, len(keys))
	for i, k := range keys {
		list[i].key = k
	}
	acknowledged(t, gateway, "", list)
}

// held is what an engine holds.
type held struct{ goroutines, files, kilobytes int }

// held of the engines of all workers.
func (w *world) held(t *testing.T) map[string]held {
	t.Helper()
	out := map[string]held{}
	for name, x := range w.worker {
		pid := enginePID(t, x)
		files := must[[]os.DirEntry](t)(os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd")))
		h := held{files: len(files)}
		for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))))) {
			if rest, ok := strings.CutPrefix(line, "Private_Dirty:"); ok {
				h.kilobytes = must[int](t)(strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB")))
			}
		}
		text := w.cluster[x.inCluster].raw(t, "/v1/workers/"+x.inCluster+"/"+name+"/metrics")
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, `go_goroutines{process="engine"} `); ok {
				h.goroutines = must[int](t)(strconv.Atoi(strings.TrimSpace(rest)))
			}
		}
		if h.goroutines == 0 {
			t.Fatalf("no go_goroutines in\n%s", text)
		}
		out[name] = h
	}
	return out
}

// raw reads a path of a tier's interface as its administrator.
func (x *tier) raw(t *testing.T, path string) string {
	t.Helper()
	entry := must[client.Context](t)(client.ReadContext(x.contextFile()))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(entry.CA))
	conf := &tls.Config{RootCAs: roots, ServerName: entry.ServerName, MinVersion: tls.VersionTLS13}
	if entry.Cert != "" {
		conf.Certificates = []tls.Certificate{must[tls.Certificate](t)(tls.X509KeyPair([]byte(entry.Cert), []byte(entry.Key)))}
	}
	r := must[*http.Request](t)(http.NewRequest(http.MethodGet, entry.Server+path, nil))
	if entry.Token != "" {
		r.Header.Set("Authorization", "Bearer "+entry.Token)
	}
	client := http.Client{Timeout: loadPatience, Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
	resp := must[*http.Response](t)(client.Do(r))
	defer func() { _ = resp.Body.Close() }() // read only
	text := string(must[[]byte](t)(io.ReadAll(resp.Body)))
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", path, resp.Status, text)
	}
	return text
}
