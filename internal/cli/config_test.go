package cli

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cli/daemonflags"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// files writes files below the fixture's folder of settings.
func (f *fixture) files(content map[string]string) {
	f.t.Helper()
	for name, text := range content {
		path := filepath.Join(f.dir, "etc", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			f.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

// The command line counts more than the environment, that more than the files,
// and of those the later more than the earlier.
func TestWhichSettingCounts(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	var got daemonflags.WorkerFlags
	f.daemons.Worker = func(_ context.Context, v daemonflags.WorkerFlags) error { got = v; return nil }
	f.env["VERGE_MEMORY"], f.env["VERGE_GATEWAY"] = "3Gi", ":2"
	f.files(map[string]string{
		"worker.yaml": "name: a\ncpus: 2\nmemory: 1Gi\ngateway: :1\ndisk: 5Gi\ndata-dir: /d\n" +
			"cluster: [x:1, y:2]\nlabel: {rack: 1, note: 'a,b \"c\"'}\n",
		"worker.d/10.yaml":   "cpus: 500m\n",
		"worker.d/20.yml":    "# nothing yet\n",
		"worker.d/.30.yaml":  "no such thing: 1\n",
		"worker.d/readme.md": "no such thing: 1\n",
	})
	if r := f.run("worker", "--gateway", ":3"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	got.Process = daemonflags.Process{}
	want := daemonflags.WorkerFlags{
		DataDir: "/d", Name: "a", Cluster: []string{"x:1", "y:2"}, Data: ":8474", Gateway: ":3",
		CPUs: 500, Memory: 3 << 30, Disk: 5 << 30, Reserve: 0.05,
		Labels: map[string]string{"rack": "1", "note": `a,b "c"`}, Network: "auto",
		ProbeDevices: true, ProbeBandwidth: true,
		Pull: engineapi.PullConfig{KeepUnused: api.Duration(7 * 24 * time.Hour), DiskHigh: 85},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	r := f.run("config", "print", "worker", "--gateway", ":3")
	etc := filepath.Join(f.dir, "etc")
	for _, line := range []string{
		"# command line\ngateway: :3\n", "# VERGE_MEMORY\nmemory: 3Gi\n", "# DIR/etc/worker.d/10.yaml:1\ncpus: 500m\n",
		"# DIR/etc/worker.yaml:1\nname: a\n", "# default\nreserve: 5%\n",
	} {
		if r.code != 0 || !strings.Contains(r.stdout, line) {
			t.Errorf("config print: exit %d, lacks %q:\n%s%s", r.code, line, r.stdout, r.stderr)
		}
	}
	// What is printed can be a file again.
	f.files(map[string]string{"copy.yaml": r.stdout})
	got = daemonflags.WorkerFlags{}
	delete(f.env, "VERGE_MEMORY")
	delete(f.env, "VERGE_GATEWAY")
	if r := f.run("worker", "--config", filepath.Join(etc, "copy.yaml")); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if got.Process = (daemonflags.Process{}); !reflect.DeepEqual(got, want) {
		t.Errorf("from what was printed: %+v", got)
	}
	// The data directory of a worker is also that of what stops it.
	var stop daemonflags.StopFlags
	f.daemons.StopWorker = func(_ context.Context, v daemonflags.StopFlags) error { stop = v; return nil }
	if r := f.run("worker", "stop"); r.code != 0 || stop.DataDir != "/d" {
		t.Errorf("%+v: %+v", r, stop)
	}
}

func TestBadConfiguration(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown":         {"api: :1\nport: 7\n", `root.yaml:2: "port" is not a setting of verge root`},
		"underscore":      {"data_dir: /d\n", "write data-dir"},
		"twice":           {"api: :1\napi: :2\n", "root.yaml:2: api is set twice"},
		"type":            {"cluster-dead-after: soon\n", "root.yaml:1: cluster-dead-after"},
		"value":           {"log-level: loud\n", "one of debug"},
		"list for one":    {"api: [a, b]\n", "root.yaml:1: api"},
		"mapping for one": {"api: {a: b}\n", "root.yaml:1: api"},
		"nested list":     {"advertise: [[a]]\n", "line 1"},
		"not a mapping":   {"- api\n", "is not a mapping"},
		"no yaml":         {"api: [\n", "root.yaml"},
		"two documents":   {"api: :1\n---\napi: :2\n", "second document"},
		"itself":          {"config: /x\n", "not a setting"},
		"help":            {"help: true\n", "not a setting"},
		"large":           {"# " + strings.Repeat("x", daemonflags.MaxConfigBytes) + "\n", "configuration file"},
		"alias":           {"link: &a :1\napi: *a\n", "aliases"},
	} {
		f := newFixture(t, &resttest.Fake{})
		f.daemons.Root = func(context.Context,
			daemonflags.RootFlags) error {
			t.Errorf("%s: it was started", name)
			return nil
		}
		f.files(map[string]string{"root.yaml": c.text})
		if r := f.run("root"); r.code != 1 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: exit %d: %s", name, r.code, r.stderr)
		}
	}
	f := newFixture(t, &resttest.Fake{})
	if r := f.run("root", "--config", "/no/such/file.yaml"); r.code != 1 ||
		!strings.Contains(r.stderr, "/no/such/file.yaml") {
		t.Errorf("%+v", r)
	}
}

func TestSettingsAreReadAgain(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	f.files(map[string]string{"root.yaml": "cluster-dead-after: 30s\nadvertise: [a]\nlink: :1\n"})
	f.daemons.Root = func(_ context.Context, v daemonflags.RootFlags) error {
		again := func(wantChanged ...string) daemonflags.RootFlags {
			t.Helper()
			flags, changed, err := v.Reread()
			if err != nil || !slices.Equal(changed, wantChanged) {
				t.Errorf("changed %v, %v, want %v", changed, err, wantChanged)
			}
			got, ok := flags.(daemonflags.RootFlags)
			if !ok && err == nil {
				t.Errorf("got %T", flags)
			}
			return got
		}
		again()
		f.files(map[string]string{"root.yaml": "cluster-dead-after: 40s\nadvertise: [a, b]\nlink: :9\n"})
		if got := again("advertise", "cluster-dead-after"); got.ClusterDeadAfter != 40*time.Second ||
			len(got.Advertise) != 2 || got.Link != ":7" {
			t.Errorf("got %+v", got)
		}
		again()
		f.files(map[string]string{"root.yaml": "nonsense: 1\n"})
		if _, _, err := v.Reread(); err == nil || !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("nonsense was read: %v", err)
		}
		f.files(map[string]string{"root.yaml": ""})
		if got := again("advertise", "cluster-dead-after"); got.ClusterDeadAfter != time.Minute {
			t.Errorf("got %+v", got)
		}
		return nil
	}
	if r := f.run("root", "--data-dir", "/d", "--link", ":7"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
}

func TestDoctor(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	r := f.run("doctor")
	if r.code != 0 || !strings.Contains(r.stdout, "ok    clock of ") ||
		!strings.Contains(r.stdout, " answers, version ") {
		t.Errorf("%+v", r)
	}
	// A clock that differs is a finding of its own, and said once.
	skewed := rpc.WorkerView{WorkerInfo: wire.WorkerInfo{Name: "w1"}, Cluster: "edge", Status: "ready",
		ClockSkewSeconds: -3600}
	g := newFixture(t, &resttest.Fake{State: apiv1.StatusView{
		Role: "root", Name: "root", Time: time.Now(), Workers: []rpc.WorkerView{skewed},
		Clusters: []apiv1.ClusterView{{Name: "edge", ClockSkewSeconds: 12}},
		Problems: []string{apiv1.SkewProblem("worker edge/w1", "its cluster", -3600),
			"nothing can be stored: disk full"},
	}})
	r = g.run("doctor")
	for _, want := range []string{
		"warn  clock of worker edge/w1: 1h0m0s behind that of its cluster\n      → set both clocks (NTP)",
		"(docs/certificates.md#clocks)",
		"warn  clock of cluster edge: 12s ahead of that of the root",
		"warn  root root: nothing can be stored: disk full",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("lacks %s:\n%s", want, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "the clock of") {
		t.Errorf("it is said twice:\n%s", r.stdout)
	}
	// Certificates of gateways too.
	gate := rpc.WorkerView{WorkerInfo: wire.WorkerInfo{Name: "w1",
		Published: &wire.GatewayInfo{Certificates: []wire.GatewayCertificate{
			{Host: "old.example", Source: "secret", Expires: ago(time.Hour)},
			{Host: "acme.example", Source: "acme", Expires: ago(-240 * time.Hour), Failed: true,
				Problem: "no certificate by ACME: refused"},
			{Host: "good.example", Source: "acme", Expires: ago(-2400 * time.Hour)},
		}}}, Cluster: "edge", Status: "ready"}
	g = newFixture(t, &resttest.Fake{State: apiv1.StatusView{
		Role: "root", Name: "root", Time: time.Now(), Workers: []rpc.WorkerView{gate},
		Problems: []string{"worker edge/w1: gateway, host acme.example: no certificate by ACME: refused"},
	}})
	r = g.run("doctor")
	if r.code != 1 || !strings.Contains(r.stdout, "fail  certificate of old.example at edge/w1: it has expired at ") ||
		!strings.Contains(r.stdout, "verge secret set NAME --cert") ||
		!strings.Contains(r.stdout, "warn  certificate of acme.example at edge/w1: no certificate by ACME: refused") ||
		strings.Count(r.stdout, "acme.example") != 1 || strings.Contains(r.stdout, "good.example") {
		t.Errorf("%+v", r)
	}
	f.files(map[string]string{"worker.yaml": "data-dir: " + filepath.Join(f.dir, "w") + "\ndata: 127.0.0.1:0\n"})
	r = f.run("doctor", "worker", "-o", "json")
	if r.code != 0 || !strings.Contains(r.stdout, `"check": "port --data"`) ||
		!strings.Contains(r.stdout, `"check": "join"`) {
		t.Errorf("%+v", r)
	}
	r = f.run("doctor", "root", "--data-dir", "/dev/null", "--api", "127.0.0.1:0", "--link", "127.0.0.1:0")
	if r.code != 1 || !strings.Contains(r.stdout, "fail  data directory: /dev/null is not a directory") ||
		!strings.Contains(r.stderr, "will not work") {
		t.Errorf("%+v", r)
	}
	if r := f.run("doctor", "worm"); r.code != 1 || !strings.Contains(r.stderr, "unknown command") {
		t.Errorf("%+v", r)
	}
}
