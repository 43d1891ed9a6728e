package e2e

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/pki/tokens"
)

// TestBadInput gives Verge what it must refuse: each time with an error that
// names the place and what to do, and nothing is changed.
func TestBadInput(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge")
	w.root.apply(plain("good", "1", 1, 100))
	w.run("descriptors", w.badDescriptors)
	w.run("commands", w.badCommands)
	w.run("ports", w.portsTaken)
	w.run("tokens", w.badTokens)
	w.run("contexts", w.badContexts)
	w.run("ages are of the reports", w.agesAreOfTheReports)
	w.run("strangers", w.strangersGetNothing)
	w.run("credentials of others", w.credentialsOfOthers)
}

// refused checks that a run failed and said what it should.
func refused(t *testing.T, what string, r result, words ...string) {
	t.Helper()
	wantEqual(t, what+": exit code", r.code, 1)
	wantWords(t, what, r.err, append(words, "→")...)
	if strings.Contains(r.err, "panic") || strings.Contains(r.err, "goroutine ") {
		t.Errorf("%s: it broke down:\n%s", what, r.err)
	}
}

func (w *world) badDescriptors(t *testing.T) {
	const head = "application: bad\nservices:\n  main:\n    command: [testprogram]\n"
	noise := make([]byte, 4096)
	_, _ = rand.Read(noise) // never fails
	before := w.root.ok("get", "applications", "-o", "json")
	for name, c := range map[string]struct {
		text  string
		words []string
	}{
		"unknown key":        {head + "    comand: [x]\n", []string{":5:5", "services.main.comand", "did you mean command"}},
		"unknown key on top": {head + "replica: 3\n", []string{":5:1", "replica"}},
		"wrong unit":         {head + "    resources: {memory: 5Mx}\n", []string{":5:25", "services.main.resources.memory", "5Mx", "128Mi"}},
		"negative size":      {head + "    resources: {cpu: -1}\n", []string{":5:22", "services.main.resources.cpu", "-1"}},
		"impossible size":    {head + "    replicas: 1000000\n", []string{":5:15", "services.main.replicas", "10000"}},
		"missing reference":  {head + "    args: ['${VERGE_NOBODY_ADDR}']\n", []string{":5:", "services.main.args", "VERGE_NOBODY_ADDR"}},
		"missing port":       {head + "    ports: [{name: a}]\n    readiness: {tcp: {port: b}}\n", []string{":6:", "services.main.readiness", "b"}},
		"the same twice":     {head + "---\n" + head, []string{":5", "the same application"}},
		"2 MiB":              {"# " + strings.Repeat("x", 2<<20) + "\n" + head, []string{"1 MiB"}},
		"binary rubbish":     {string(noise), []string{"is not "}},
		"bytes of no text":   {"a: \xff\xfe\xfd", []string{":1:4", "UTF-8"}},
		"control characters": {"a: \x1f", []string{":1:4", "control character"}},
		"nothing":            {"", nil},
	} {
		file := w.file("bad-", c.text)
		refused(t, name, verge(t, w.root.contextFile(), "apply", file), append(c.words, file)...)
		refused(t, name+" on standard input", vergeIn(t, w.root.contextFile(), c.text, "apply", "-"))
		wantEqual(t, name+": validate", verge(t, "", "validate", file).code, 1)
	}
	// What a client lets through, the server must not.
	if _, err := w.root.client().Applications.Apply(t.Context(), []byte(head+"    comand: [x]\n"), false); err == nil {
		t.Error("the server accepted an unknown key")
	} else {
		wantWords(t, "the server", err.Error(), "5:5", "services.main.comand")
	}
	if _, err := w.root.client().Applications.Apply(t.Context(), []byte(strings.Repeat("x", 2<<20)), false); err == nil {
		t.Error("the server accepted 2 MiB")
	}
	refused(t, "host taken", verge(t, w.root.contextFile(), "apply", w.file("bad-", strings.Replace(plain("bad", "1", 1, 100), "bad.test", "good.test", 1))),
		"good.test", "good.main", "services.main")
	wantEqual(t, "applications afterwards", w.root.ok("get", "applications", "-o", "json"), before)
}

func (w *world) badCommands(t *testing.T) {
	context := w.root.contextFile()
	refused(t, "unknown command", verge(t, context, "frobnicate"), "frobnicate", "verge --help")
	refused(t, "mistyped command", verge(t, context, "aply"), "aply", "did you mean apply")
	refused(t, "unknown flag", verge(t, context, "get", "apps", "--colour"), "--colour", "verge get --help")
	refused(t, "no such file", verge(t, context, "apply", w.dir+"/nowhere.yaml"), "nowhere.yaml")
	refused(t, "a folder", verge(t, context, "apply", w.dir), w.dir)
	refused(t, "no such instance", verge(t, context, "describe", "instance/good.main.7"), "good.main.7")
	refused(t, "unknown kind", verge(t, context, "get", "pods"), "pods", "instances")
	refused(t, "delete without a kind", verge(t, context, "delete", "good"), "application/good")
	refused(t, "no such application", verge(t, context, "delete", "application/nobody"), "nobody")
	refused(t, "token of the wrong tier", verge(t, context, "token", "create", "--worker"), "cluster")
	w.root.holds("good", time.Second)
}

// portsTaken starts second daemons on ports that the first ones have.
func (w *world) portsTaken(t *testing.T) {
	free := func() string { return freeAddr(t) }
	dir := func(name string) string { return filepath.Join(w.dir, name) }
	root := func(api, link string) result {
		return verge(t, "", "root", "--data-dir", dir("second-root"), "--api", api, "--link", link, "--advertise", "127.0.0.1")
	}
	edge := w.cluster["edge"]
	wantTaken(t, "the root's interface", root(w.root.api, free()), w.root.api, "--api")
	wantTaken(t, "the root's link", root(free(), w.root.link), w.root.link, "")
	token := w.token(w.root, apiv1.TokenRequest{Kind: "cluster", Cluster: "cloud"})
	cluster := func(api, link string) result {
		return verge(t, "", "cluster", "--data-dir", dir("second-cluster"), "--api", api, "--link", link, "--advertise", "127.0.0.1", "--token-file", token)
	}
	wantTaken(t, "the cluster's link", cluster(free(), edge.link), edge.link, "")
	wantTaken(t, "the cluster's interface", cluster(edge.api, free()), edge.api, "--api")

	// A worker runs its instances all the same, but says what it cannot do.
	old := w.worker["edge-1"]
	for flag, addr := range map[string]string{"--gateway": old.gateway, "--data": old.data} {
		x := w.addWorker("edge", "second"+flag[1:], flag, addr)
		for what, says := range map[string]func() string{
			x.name: x.text, "the cluster's status": func() string { return edge.ok("status") },
		} {
			eventually(t, 10*time.Second, what+" says that "+addr+" is taken", func() error {
				if text := says(); !strings.Contains(text, addr+" is taken") || !strings.Contains(text, flag) {
					return errText(text)
				}
				return nil
			})
		}
		killAll(t, x.dir)
		x.wait()
		removeGroups(t, x.dir)
		delete(w.worker, x.short)
	}
	if _, err := os.Stat(filepath.Join(dir("second-root"), "context.yaml")); err == nil {
		t.Error("a root that never ran left a context")
	}
}

type errText string

func (e errText) Error() string { return string(e) }

// wantTaken checks the error about a port that is taken.
func wantTaken(t *testing.T, what string, r result, words ...string) {
	t.Helper()
	wantEqual(t, what+": exit code", r.code, 1)
	wantWords(t, what, r.err, append(words, "address already in use", "another")...)
}

// join starts a daemon that must fail and returns what it said.
func (w *world) join(role, dir, token string, more ...string) result {
	w.t.Helper()
	args := []string{role, "--data-dir", filepath.Join(w.dir, dir)}
	if token != "" {
		args = append(args, "--token-file", token)
	}
	if role == "worker" {
		args = append(args, "--data", "127.0.0.1:0", "--network", "loopback")
	} else {
		args = append(args, "--api", "127.0.0.1:0", "--link", "127.0.0.1:0")
	}
	return verge(w.t, "", append(args, more...)...)
}

func (w *world) badTokens(t *testing.T) {
	edge := w.cluster["edge"]
	text := func(file string) string {
		t.Helper()
		return strings.TrimSpace(string(must[[]byte](t)(os.ReadFile(file))))
	}
	workers := edge.ok("get", "workers", "-o", "name")
	clusters := w.root.ok("get", "clusters", "-o", "name")
	ofWorker := w.token(edge, apiv1.TokenRequest{Kind: "worker"})
	ofCluster := w.token(w.root, apiv1.TokenRequest{Kind: "cluster", Cluster: "fog"})
	expiring := w.token(edge, apiv1.TokenRequest{Kind: "worker", TTLSeconds: 1})
	good := must[tokens.Token](t)(tokens.Parse(text(ofWorker)))

	refused(t, "no token", w.join("worker", "x1", "", "--name", "x1"), "has not joined", "verge token create --worker", "--token-file")
	refused(t, "no token for a cluster", w.join("cluster", "x1c", ""), "has not joined", "verge token create --cluster")
	refused(t, "no token file", w.join("worker", "x2", w.dir+"/nowhere", "--name", "x2"), "nowhere")
	refused(t, "rubbish", w.join("worker", "x3", w.file("token-", "rubbish"), "--name", "x3"), "token")
	refused(t, "cut off", w.join("worker", "x4", w.file("token-", text(ofWorker)[:100]), "--name", "x4"), "token", "verge token create")
	refused(t, "a cluster's for a worker", w.join("worker", "x5", ofCluster, "--name", "x5"), "cluster", "verge token create --worker")
	refused(t, "a worker's for a cluster", w.join("cluster", "x6", ofWorker), "worker", "verge token create --cluster")
	refused(t, "another cluster's name", w.join("cluster", "x7", ofCluster, "--name", "other"), "fog", "other")

	forged := good
	forged.Secret = strings.Repeat("A", len(good.Secret))
	refused(t, "forged", w.join("worker", "x8", w.file("token-", forged.Encode()), "--name", "x8"), "token", "verge token create --worker")
	stranger := good
	stranger.Pin = strings.Repeat("0", len(good.Pin))
	refused(t, "another authority's", w.join("worker", "x9", w.file("token-", stranger.Encode()), "--name", "x9"), good.Addrs[0], "certificate")
	nowhere := good
	nowhere.Addrs = []string{freeAddr(t)}
	refused(t, "nobody there", w.join("worker", "x10", w.file("token-", nowhere.Encode()), "--name", "x10"), nowhere.Addrs[0])

	x := w.addWorker("edge", "extra")
	w.allReady()
	used := x.args[len(x.args)-1]
	refused(t, "used", w.join("worker", "x11", used, "--name", "x11"), "used", "verge token create --worker")
	refused(t, "a name that is taken", w.join("worker", "x12", ofWorker, "--name", "extra"), "extra", "--name")
	killAll(t, x.dir)
	x.wait()
	removeGroups(t, x.dir)
	delete(w.worker, x.short)

	expires := must[tokens.Token](t)(tokens.Parse(text(expiring))).Expires
	eventually(t, 5*time.Second, "the token's time is over", func() error {
		if time.Now().Before(expires.Add(time.Second)) {
			return errText("not yet")
		}
		return nil
	})
	refused(t, "expired", w.join("worker", "x13", expiring, "--name", "x13"), "expired", "verge token create --worker")

	wantEqual(t, "clusters afterwards", w.root.ok("get", "clusters", "-o", "name"), clusters)
	after := strings.Split(strings.TrimSpace(edge.ok("get", "workers", "-o", "name")), "\n")
	wantEqual(t, "workers afterwards", len(after), len(strings.Split(strings.TrimSpace(workers), "\n"))+1) // extra
	for n := range 14 {
		for _, f := range []string{"engine.json", "identity/joined.json", "joined.json"} {
			path := filepath.Join(w.dir, "x"+string(rune('0'+n)), f)
			if _, err := os.Stat(path); err == nil {
				t.Errorf("a refused join left %s", path)
			}
		}
	}
}

func (w *world) badContexts(t *testing.T) {
	own := must[client.Context](t)(client.ReadContext(w.root.contextFile()))
	variant := func(name string, change func(e *client.Context)) string {
		t.Helper()
		e := own
		change(&e)
		path := filepath.Join(w.dir, "context-"+name+".yaml")
		if err := client.WriteContext(path, e); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dead := freeAddr(t)
	refused(t, "nobody there", verge(t, variant("dead", func(e *client.Context) { e.Server = "https://" + dead }), "get", "apps"), dead, "does not answer")

	other := newRoot(t)
	theirs := must[client.Context](t)(client.ReadContext(other.root.contextFile()))
	theirs.Server = own.Server
	path := filepath.Join(w.dir, "context-theirs.yaml")
	if err := client.WriteContext(path, theirs); err != nil {
		t.Fatal(err)
	}
	refused(t, "another root's context", verge(t, path, "get", "apps"), w.root.api, "certificate")
	// Their certificate, though this root is trusted.
	refused(t, "another root's certificate", verge(t, variant("cert", func(e *client.Context) { e.Cert, e.Key = theirs.Cert, theirs.Key }), "get", "apps"), w.root.api)
	refused(t, "no credentials", verge(t, variant("none", func(e *client.Context) { e.Cert, e.Key = "", "" }), "get", "apps"), "client certificate", "verge token create --api")
	refused(t, "a wrong bearer token", verge(t, variant("bearer", func(e *client.Context) { e.Cert, e.Key, e.Token = "", "", "nonsense" }), "get", "apps"), "token")
	refused(t, "no such context", verge(t, w.dir+"/nowhere.yaml", "get", "apps"), "nowhere.yaml")
	refused(t, "rubbish", verge(t, w.file("context-", "\x00\x01rubbish"), "get", "apps"), "context")
	refused(t, "none at all", verge(t, "", "get", "apps"))
}
