package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
)

// world is a root, clusters and workers, each its own process.
type world struct {
	t       *testing.T
	dir     string
	root    *tier
	cluster map[string]*tier
	worker  map[string]*worker
	spots   map[string]spot // of the nodes
	disks   int             // how many nodes have one of their own
	// settle finds a spot for a node: on this machine, or on one of its own.
	settle func(name string) spot
}

// spot is where a node runs.
type spot interface {
	// addr is an address to listen on; port is what it would be on a machine of
	// its own.
	addr(port int) string
	// do starts something there.
	do(start func() error) error
}

// here is this machine, which is shared: every address has a port of its own.
type here struct{ t *testing.T }

func (h here) addr(int) string             { return freeAddr(h.t) }
func (h here) do(start func() error) error { return start() }

// tier is an orchestrator: the root or a cluster.
type tier struct {
	*daemon
	dir       string
	api, link string

	clients sync.Mutex // guards below
	context client.Context
	open    *client.Client // with context
}

// worker is an agent with its engine and its instances.
type worker struct {
	*daemon          // the agent
	dir              string
	data, gateway    string
	short, inCluster string
}

// newWorld starts a root and clusters with so many workers each, called
// "<cluster>-1" and so on, and waits until the root knows them all.
func newWorld(t *testing.T, workers int, clusters ...string) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	w := newRoot(t)
	for _, name := range clusters {
		w.addCluster(name)
	}
	for _, name := range clusters {
		w.cluster[name].answers()
		for n := range workers {
			w.addWorker(name, fmt.Sprintf("%s-%d", name, n+1))
		}
	}
	w.allReady()
	return w
}

// newRoot starts a world of a root alone.
func newRoot(t *testing.T) *world {
	t.Helper()
	w := emptyWorld(t, newDir(t))
	w.startRoot("--cluster-dead-after", "30s")
	return w
}

// emptyWorld has no nodes yet; it works in dir.
func emptyWorld(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{t: t, dir: dir, cluster: map[string]*tier{}, worker: map[string]*worker{}, spots: map[string]spot{}}
	w.settle = func(string) spot { return here{w.t} }
	t.Cleanup(w.end)
	return w
}

func (w *world) startRoot(args ...string) {
	w.t.Helper()
	w.root = w.newTier("root", "root", args...)
	w.root.start()
	w.root.answers()
}

// run runs a part of a test that shares the world with others. What the world
// finds wrong meanwhile is the part's failure.
func (w *world) run(name string, part func(t *testing.T)) {
	whole := w.t
	if whole.Failed() {
		whole.Run(name, func(t *testing.T) { t.Skip("an earlier part left the world in a state that nobody knows") })
		return
	}
	whole.Run(name, func(t *testing.T) {
		w.t = t
		defer func() { w.t = whole }()
		part(t)
	})
}

// newDir is a temporary directory with a short path, since sockets lie in it.
func newDir(t *testing.T) string {
	t.Helper()
	dir := must[string](t)(os.MkdirTemp("", "vg"))
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return must[string](t)(filepath.EvalSymlinks(dir))
}

// sharedDir is one that instances write to, whoever they run as: as a volume of the machine,
// whose path they have. Each that writes to a file of another makes it with umask 0.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir := newDir(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (w *world) newTier(role, name string, args ...string) *tier {
	w.t.Helper()
	in, api, link := w.at(name), apiPort[role], linkPort[role]
	x := &tier{dir: filepath.Join(w.dir, name+".d"), api: in.addr(api), link: in.addr(link)}
	x.daemon = &daemon{w: w, name: name, path: programs.verge, log: filepath.Join(w.dir, name+".log"), in: in}
	host, _, err := net.SplitHostPort(x.api)
	if err != nil {
		w.t.Fatal(err)
	}
	x.args = append([]string{role, "--data-dir", x.dir, "--api", x.api, "--link", x.link, "--advertise", host}, args...)
	return x
}

// at is the spot of a node that is about to be made.
func (w *world) at(name string) spot {
	w.t.Helper()
	w.spots[name] = w.settle(name)
	return w.spots[name]
}

// The usual ports.
var (
	apiPort  = map[string]int{"root": 8470, "cluster": 8473}
	linkPort = map[string]int{"root": 8471, "cluster": 8472}
)

const dataPort, gatewayPort = 8474, 8480

// addCluster starts a cluster; what is in more counts more than what it is
// started with otherwise.
func (w *world) addCluster(name string, more ...string) *tier {
	w.t.Helper()
	return w.addClusterBy(name, func(*tier) {}, more...)
}

// addClusterBy is addCluster, and calls prepare before it starts.
func (w *world) addClusterBy(name string, prepare func(*tier), more ...string) *tier {
	w.t.Helper()
	c := w.newTier("cluster", name, append([]string{
		"--name", name, "--area", name, "--share-details", "--interval", "2s",
		"--token-file", w.token(w.root, apiv1.TokenRequest{Kind: "cluster", Cluster: name}),
	}, more...)...)
	w.cluster[name] = c
	prepare(c)
	c.start()
	return c
}

func (w *world) addWorker(cluster, name string, more ...string) *worker {
	w.t.Helper()
	return w.addWorkerBy(cluster, name, func(*worker) {}, more...)
}

// addWorkerBy is addWorker, and calls prepare before it starts.
func (w *world) addWorkerBy(cluster, name string, prepare func(*worker), more ...string) *worker {
	w.t.Helper()
	in := w.at(name)
	x := &worker{
		dir: filepath.Join(w.dir, name+".d"), data: in.addr(dataPort), gateway: in.addr(gatewayPort),
		short: name, inCluster: cluster,
	}
	x.daemon = &daemon{w: w, name: name, path: programs.verge, log: filepath.Join(w.dir, name+".log"), in: in}
	x.args = append([]string{
		"worker", "--data-dir", x.dir, "--name", name, "--data", x.data, "--gateway", x.gateway, "--advertise", x.data,
		"--cpus", "4", "--memory", "2Gi", "--disk", "10Gi", "--network", "loopback",
		"--allow-host-path", os.TempDir(),
		"--token-file", w.token(w.cluster[cluster], apiv1.TokenRequest{Kind: "worker"}),
	}, more...)
	w.worker[name] = x
	prepare(x)
	x.start()
	return x
}

// token makes a token in a file of its own.
func (w *world) token(at *tier, r apiv1.TokenRequest) string {
	w.t.Helper()
	reply := must[apiv1.TokenReply](w.t)(at.client().Tokens.Create(w.t.Context(), r))
	return w.file("token-", reply.Token)
}

// file writes a temporary file that others cannot read.
func (w *world) file(prefix, content string) string {
	w.t.Helper()
	f := must[*os.File](w.t)(os.CreateTemp(w.dir, prefix))
	_, err := f.WriteString(content)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return f.Name()
}

func (x *tier) contextFile() string { return filepath.Join(x.dir, "context.yaml") }

// client of this tier's interface by its administrator's context, always the same
// as long as that does not change: a tier does not take any number of connections
// from one address.
func (x *tier) client() *client.Client {
	x.w.t.Helper()
	now := must[client.Context](x.w.t)(client.ReadContext(x.contextFile()))
	x.clients.Lock()
	defer x.clients.Unlock()
	if x.open == nil || x.context != now {
		if x.open != nil {
			x.open.Close()
		}
		x.open, x.context = must[*client.Client](x.w.t)(client.New(now)), now
	}
	return x.open
}

// answers waits until the tier's interface works.
func (x *tier) answers() {
	x.w.t.Helper()
	eventually(x.w.t, 15*time.Second, x.name+" answers", func() error {
		if !x.running() {
			return fmt.Errorf("it ended: %s", x.text())
		}
		if _, err := os.Stat(x.contextFile()); err != nil {
			return err
		}
		_, err := x.client().System.Status(context.Background())
		return err
	})
}

// allReady waits until the root sees every worker ready.
func (w *world) allReady() {
	w.t.Helper()
	c := w.root.client()
	eventually(w.t, 20*time.Second, "all workers are ready", func() error {
		list, err := c.Workers.List(context.Background())
		if err != nil {
			return err
		}
		ready := 0
		for _, x := range list {
			if x.Status == "ready" {
				ready++
			}
		}
		return differs("ready workers", ready, len(w.worker))
	})
}

// end kills everything, says what happened if the test failed, and looks whether
// anything is left.
func (w *world) end() {
	if w.t.Failed() {
		w.dump()
	}
	for _, x := range append(slices.Collect(maps.Values(w.cluster)), w.root) {
		if x != nil && x.open != nil {
			x.open.Close()
		}
	}
	killAll(w.t, w.dir)
	for _, x := range w.worker {
		removeGroups(w.t, x.dir)
	}
	unmountBelow(w.t, w.dir)
	if left := processesOf(w.dir); len(left) > 0 {
		w.t.Errorf("processes are left: %s", describe(left))
	}
}

// dump prints the end of every log.
func (w *world) dump() {
	logs, err := filepath.Glob(filepath.Join(w.dir, "*.log"))
	more, err2 := filepath.Glob(filepath.Join(w.dir, "*.d", "engine.log"))
	if err != nil || err2 != nil {
		return
	}
	for _, f := range append(logs, more...) {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		const most = 25
		lines = lines[max(0, len(lines)-most):]
		w.t.Logf("--- %s\n%s", strings.TrimPrefix(f, w.dir+"/"), strings.Join(lines, "\n"))
	}
}

// ports given out by freeAddr, so that no two get the same.
var ports struct {
	sync.Mutex
	given map[int]bool
}

// freeAddr is an address on the loopback that nobody listens on. It lies below
// the ports that systems give to outgoing connections, so it stays free while
// what listens on it is restarted.
func freeAddr(t *testing.T) string {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	if ports.given == nil {
		ports.given = map[int]bool{}
	}
	for range 1000 {
		n := 11000 + rand.IntN(8000)
		if ports.given[n] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", n))
		if err != nil {
			continue
		}
		ports.given[n] = true
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return l.Addr().String()
	}
	t.Fatal("no port is free")
	return ""
}
