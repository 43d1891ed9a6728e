package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/orphans"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/runtime/process"
	"github.com/verge-edge/verge/internal/unixsock"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// The test binary is the engine of its own integration tests, and the program
// that the engine runs.
const (
	beEngine = "VERGE_TEST_ENGINE_DIR"
	beServer = "TEST_SERVER"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(beEngine) != "":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := Main(ctx, os.Getenv(beEngine), "test", logTo(os.Stderr))
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case os.Getenv(beServer) != "":
		serveForTest()
	default:
		os.Exit(m.Run())
	}
}

// serveForTest answers with its pid and writes one line per request.
func serveForTest() {
	fmt.Println("server", os.Getpid())
	host := "127.0.0.1"
	switch os.Getenv(beServer) {
	case "own":
		host = "" // it has addresses of its own
	case "four":
		host = "0.0.0.0"
	case "given":
		host = os.Getenv("VERGE_LISTEN")
	}
	srv := &http.Server{Addr: net.JoinHostPort(host, os.Getenv("PORT")), Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(os.Getenv(beServer) == "grpc")
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/shop.Stock/Get" && r.ProtoMajor == 2 {
			status := "0"
			if b, err := io.ReadAll(r.Body); err != nil || string(b) != "\x00\x00\x00\x00\x02id" ||
				r.Method != http.MethodPost || r.Header.Get("Te") != "trailers" {
				status = "3"
			}
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Trailer", "Grpc-Status")
			_, _ = w.Write(make([]byte, 5))
			w.Header().Set("Grpc-Status", status)
			return
		}
		if r.URL.Path == "/absent" {
			http.NotFound(w, r)
			return
		}
		if r.URL.Path == "/exit" {
			code, _ := strconv.Atoi(r.FormValue("code"))
			os.Exit(code)
		}
		if r.URL.Path == "/fetch" {
			text, err := get(r.FormValue("url"))
			_, _ = fmt.Fprintln(w, text, err)
			return
		}
		if r.URL.Path == "/held" {
			_ = os.WriteFile("asked", nil, 0o600)
			for {
				if _, err := os.Stat("hold"); err != nil {
					return
				}
				<-time.After(10 * time.Millisecond)
			}
		}
		_, _ = fmt.Fprintln(w, os.Getpid())
		fmt.Println("served", r.URL.Path)
	})
	fmt.Println(srv.ListenAndServe())
	os.Exit(1)
}

// bench is a worker's directory with a real engine in it.
type bench struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	http *http.Client
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	return newBenchWith(t, "")
}

func newBenchWith(t *testing.T, network string) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir()}
	sock := filepath.Join(b.dir, engineapi.EngineSocket)
	b.http = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return unixsock.Dial(ctx, sock) },
	}}
	b.configure(network)
	b.start()
	t.Cleanup(b.clean)
	return b
}

// configure writes what the next engine goes by.
func (b *bench) configure(network string) {
	b.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	c := engineapi.EngineConfig{
		// The program of instances is in a directory that only the PATH opens to them.
		V: wire.Version, Worker: "w1", Cluster: "edge", Path: os.Getenv("PATH") + ":" + filepath.Dir(exe),
		Capacity: api.Resources{CPU: 4000, Memory: 4 << 30, Disk: 4 << 30}, Network: network,
	}
	if err := configKind.Write(filepath.Join(b.dir, engineapi.EngineConfigFile), &c); err != nil {
		b.t.Fatal(err)
	}
}

// start starts an engine and waits until it answers.
func (b *bench) start() {
	b.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	b.cmd = exec.Command(exe)
	b.cmd.Env = append(os.Environ(), beEngine+"="+b.dir)
	out := &lockedBuffer{}
	b.cmd.Stdout, b.cmd.Stderr = out, out
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.until("the engine answers", func() bool {
		resp, err := b.http.Get("http://engine/v1/state")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var s engineapi.EngineState
		return json.NewDecoder(resp.Body).Decode(&s) == nil && s.Info.PID == b.cmd.Process.Pid
	})
	b.t.Cleanup(func() {
		if b.t.Failed() {
			b.t.Logf("engine said:\n%s", out.String())
		}
	})
}

// lockedBuffer is read while the engine still writes.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// kill ends the engine as a crash does.
func (b *bench) kill() {
	b.t.Helper()
	b.http.CloseIdleConnections()
	if err := b.cmd.Process.Kill(); err != nil {
		b.t.Fatal(err)
	}
	_ = b.cmd.Wait() // says that it was killed
}

// clean ends what the test has left.
func (b *bench) clean() {
	if b.cmd.ProcessState == nil {
		b.kill()
	}
	s := b.orphans()
	found, err := s.Find(false)
	if err != nil {
		b.t.Error(err)
	}
	for id := range found {
		if err := s.End(context.Background(), id); err != nil {
			b.t.Error(err)
		}
	}
	unmountAll(b.t, b.dir)
	// An engine that was killed leaves its control groups to its successor, and
	// here there is none.
	d := process.New(process.Options{Base: b.dir})
	if err := errors.Join(d.Sweep(context.Background(), func(string) bool { return false }), d.Close()); err != nil {
		b.t.Error(err)
	}
}

// orphans finds the processes of the bench's engine.
func (b *bench) orphans() orphans.Processes {
	b.t.Helper()
	e, err := New(Options{Dir: b.dir, Config: engineapi.EngineConfig{V: wire.Version, Worker: "w", Cluster: "c"},
		Drivers: fakeDrivers()})
	if err == nil {
		err = e.assemble()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return orphans.Processes{Engine: e.deps.supervise.Mark}
}

// until polls for a condition of real processes.
func (b *bench) until(what string, ok func() bool) {
	b.t.Helper()
	tick, deadline := time.NewTicker(10*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			b.t.Fatalf("not within 30 s: %s; problems %v", what, b.info().Problems)
		}
	}
}

func (b *bench) apply(orders ...wire.Order) {
	b.t.Helper()
	o := engineapi.EngineOrders{V: wire.Version, Have: wire.Rev{Inc: "era", N: 1}, Orders: orders}
	if len(orders) > 0 {
		o.Routes = []wire.Route{{
			V: wire.Version, App: "shop", Service: "web", Ports: orders[0].Spec.Ports,
			Endpoints: []wire.Endpoint{{Instance: web0, Cluster: "edge", Worker: "w1"}},
		}}
	}
	b.put(o)
}

func (b *bench) put(o engineapi.EngineOrders) {
	b.t.Helper()
	body, err := json.Marshal(o)
	if err != nil {
		b.t.Fatal(err)
	}
	if status, text := b.do(http.MethodPut, "/v1/orders", body); status != http.StatusNoContent {
		b.t.Fatalf("orders: %d %s", status, text)
	}
}

func (b *bench) do(method, path string, body []byte) (int, string) {
	b.t.Helper()
	req, err := http.NewRequest(method, "http://engine"+path, bytes.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := b.http.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

func (b *bench) state() (s engineapi.EngineState) {
	b.t.Helper()
	if status, text := b.do(http.MethodGet, "/v1/state", nil); status == http.StatusOK {
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			b.t.Fatal(err)
		}
	}
	return s
}

func (b *bench) info() engineapi.EngineInfo { return b.state().Info }

func (b *bench) status(id string) wire.InstanceStatus {
	b.t.Helper()
	for _, s := range b.state().Changed {
		if s.ID == id {
			return s
		}
	}
	return wire.InstanceStatus{}
}

// ready waits until web0 is ready and not as pid not.
func (b *bench) ready(not int) wire.InstanceStatus {
	b.t.Helper()
	var s wire.InstanceStatus
	b.until("shop.web.0 is ready", func() bool {
		s = b.status(web0)
		return s.Ready && s.PID != not
	})
	return s
}

func (b *bench) log(offset int64) rpc.LogChunk {
	b.t.Helper()
	status, text := b.do(http.MethodGet, fmt.Sprintf("/v1/logs?instance=%s&offset=%d&max=100000", web0, offset), nil)
	var c rpc.LogChunk
	if status != http.StatusOK || json.Unmarshal([]byte(text), &c) != nil {
		b.t.Fatalf("logs: %d %s", status, text)
	}
	return c
}

// serverOrder is an order for the test's own server.
func serverOrder(t *testing.T) wire.Order {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := order(0, 1, 100)
	o.Spec.Command = []string{exe}
	o.Spec.Env = map[string]string{beServer: "1"}
	o.Spec.Resources.Memory = 256 << 20
	o.Spec.Readiness = &api.Check{HTTP: &api.HTTPCheck{Path: "/ready"}}
	o.Spec.Stop.Grace = api.Duration(3 * time.Second)
	o.Peers = map[string][]api.Port{"web": o.Spec.Ports}
	return o
}

func get(url string) (string, error) {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(b)), err
}

// alive does not count a zombie: who reaps orphans is the machine's affair.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return len(state) > 0 && state[0] != 'Z' && state[0] != 'X'
}

func TestEngineIsKilledAndSuccessorAdopts(t *testing.T) {
	b := newBench(t)
	b.apply(serverOrder(t))
	before := b.ready(0)
	url := fmt.Sprintf("http://127.0.0.1:%d", before.Ports["http"])
	for i := range 3 {
		if _, err := get(fmt.Sprintf("%s/before/%d", url, i)); err != nil {
			t.Fatal(err)
		}
	}
	first := b.log(0)
	b.kill()
	// Nobody is there, and it serves and logs on.
	if pid, err := get(url + "/between"); err != nil || pid != strconv.Itoa(before.PID) {
		t.Fatalf("%q, %v", pid, err)
	}
	b.start()
	now := b.ready(0)
	if now.PID != before.PID || now.Restarts != 0 || now.LastExit != nil {
		t.Errorf("not the same process: was %+v, is %+v", before, now)
	}
	if _, err := get(url + "/after"); err != nil {
		t.Fatal(err)
	}
	var rest string
	b.until("the log has all lines", func() bool {
		rest = string(b.log(first.Next).Data)
		return strings.Contains(rest, "/after")
	})
	all := string(first.Data) + rest
	for _, line := range []string{"served /before/0", "served /before/1", "served /before/2", "served /between",
		"served /after"} {
		if strings.Count(all, line+"\n") != 1 {
			t.Errorf("%q is %d times in the log", line, strings.Count(all, line+"\n"))
		}
	}
	// And it obeys its new engine.
	b.apply()
	b.until("it is gone", func() bool { return !alive(now.PID) && b.status(web0).ID == "" })
	if _, err := os.Stat(filepath.Join(b.dir, state.InstancesDir, web0)); !os.IsNotExist(err) {
		t.Errorf("its files are left: %v", err)
	}
}

func TestExitCodeWithoutAnAgent(t *testing.T) {
	b := newBench(t)
	o := serverOrder(t)
	o.Spec.Restart.Policy = "never"
	b.apply(o)
	s := b.ready(0)
	b.http.CloseIdleConnections() // the agent is gone
	if _, err := get(fmt.Sprintf("http://127.0.0.1:%d/exit?code=7", s.Ports["http"])); err == nil {
		t.Fatal("it did not exit")
	}
	b.until("its process is gone", func() bool { return !alive(s.PID) })
	b.until("the exit is reported", func() bool { return b.status(web0).Phase == wire.PhaseExited })
	if s := b.status(web0); s.LastExit == nil || s.LastExit.Code != 7 || s.LastExit.Unknown {
		t.Errorf("%+v, last exit %+v", s, s.LastExit)
	}
	// Also after the engine died.
	b.kill()
	b.start()
	if s := b.status(web0); s.LastExit == nil || s.LastExit.Code != 7 || s.Phase != wire.PhaseExited {
		t.Errorf("%+v, last exit %+v", s, s.LastExit)
	}
}

func TestInstanceAndEngineDieTogether(t *testing.T) {
	b := newBench(t)
	b.apply(serverOrder(t))
	s := b.ready(0)
	b.kill()
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.start()
	now := b.ready(s.PID)
	if now.LastExit == nil || !now.LastExit.Unknown || now.Restarts != 1 || now.Ports["http"] != s.Ports["http"] {
		t.Errorf("%+v, last exit %+v", now, now.LastExit)
	}
}

func TestStartsFromFilesAfterAPowerCut(t *testing.T) {
	b := newBench(t)
	b.apply(serverOrder(t))
	s := b.ready(0)
	b.kill()
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// What another boot finds: handles that mean nothing any more.
	dir := filepath.Join(b.dir, state.InstancesDir, web0)
	rec, err := state.ReadRecord(dir, web0)
	if err != nil {
		t.Fatal(err)
	}
	rec.Boot, rec.Handle.Boot, rec.Failures = "another boot", "another boot", 4
	if err := state.RecordKind.Write(filepath.Join(dir, state.RecordName), &rec); err != nil {
		t.Fatal(err)
	}
	b.start()
	// Nobody has sent orders: all comes from the files.
	now := b.ready(s.PID)
	if st := b.state(); st.Have != (wire.Rev{Inc: "era", N: 1}) {
		t.Errorf("has %v", st.Have)
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", now.PID))
	if err != nil {
		t.Fatal(err)
	}
	var addr string
	for v := range strings.SplitSeq(string(env), "\x00") {
		if a, ok := strings.CutPrefix(v, "VERGE_WEB_ADDR="); ok {
			addr = a
		}
	}
	b.until("the service answers at its loopback address "+addr, func() bool {
		pid, err := get("http://" + addr + "/entry")
		return err == nil && pid == strconv.Itoa(now.PID)
	})
	if rec, err := state.ReadRecord(dir, web0); err != nil || rec.Failures != 0 {
		t.Errorf("failures in a row %d, %v", rec.Failures, err)
	}
}

func TestEndsWhatADeadEngineStartedUnnoted(t *testing.T) {
	b := newBench(t)
	b.apply(serverOrder(t))
	s := b.ready(0)
	b.kill()
	dir := filepath.Join(b.dir, state.InstancesDir, web0)
	rec, err := state.ReadRecord(dir, web0)
	if err != nil {
		t.Fatal(err)
	}
	rec.Handle, rec.Starting = nil, true
	if err := state.RecordKind.Write(filepath.Join(dir, state.RecordName), &rec); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.ready(s.PID)
	if alive(s.PID) {
		t.Error("two of the same instance run")
	}
	found, err := b.orphans().Find(false)
	if err != nil || len(found[web0]) != 1 {
		t.Errorf("processes of the instance: %v, %v", found, err)
	}
}

func TestSecondEngineIsRefused(t *testing.T) {
	b := newBench(t)
	err := Main(context.Background(), b.dir, "test", slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "another engine works in this directory") {
		t.Errorf("got %v", err)
	}
	if b.info().PID != b.cmd.Process.Pid {
		t.Error("the first engine lost its socket")
	}
}

func TestTermLeavesInstancesShutdownDoesNot(t *testing.T) {
	b := newBench(t)
	b.apply(serverOrder(t))
	s := b.ready(0)
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Wait(); err != nil {
		t.Errorf("the engine: %v", err)
	}
	if !alive(s.PID) {
		t.Fatal("the end of the engine ended the instance")
	}
	if _, err := os.Stat(filepath.Join(b.dir, engineapi.EngineSocket)); !os.IsNotExist(err) {
		t.Errorf("its socket is left: %v", err)
	}
	b.start()
	b.ready(0)
	if status, text := b.do(http.MethodPost, "/v1/shutdown", nil); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, text)
	}
	if err := b.cmd.Wait(); err != nil {
		t.Errorf("the engine: %v", err)
	}
	if alive(s.PID) {
		t.Error("the instance outlived a shutdown")
	}
}

func TestSocketSaysWhatIsWrong(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{http.MethodPut, "/v1/orders", "{", http.StatusBadRequest, "bad-request"},
		{http.MethodPut, "/v1/orders", `{"v":77}`, http.StatusBadRequest, "bad-request"},
		{http.MethodPut, "/v1/orders", strings.Repeat(" ", state.MaxOrderBytes+1), http.StatusRequestEntityTooLarge,
			"too-large"},
		{http.MethodGet, "/v1/state?after=x", "", http.StatusBadRequest, "bad-request"},
		{http.MethodGet, "/v1/logs?instance=a.b.0", "", http.StatusNotFound, "no-instance"},
		{http.MethodGet, "/v1/logs?instance=..%2F..%2Fetc", "", http.StatusNotFound, "no-instance"},
	} {
		status, text := b.do(c.method, c.path, []byte(c.body))
		if status != c.status || !strings.Contains(text, `"code":"`+c.code+`"`) {
			t.Errorf("%s %s: %d %.200s", c.method, c.path, status, text)
		}
	}
	if s := b.state(); len(s.Changed) != 0 || !s.Have.IsZero() {
		t.Errorf("something was stored: %+v", s)
	}
}

func TestCommandThatDoesNotExist(t *testing.T) {
	b := newBench(t)
	o := serverOrder(t)
	o.Spec.Command = []string{"no-such-command-anywhere"}
	b.apply(o)
	b.until("it says so", func() bool { return strings.Contains(b.status(web0).Why, "no-such-command-anywhere") })
}
