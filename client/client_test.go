package client_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Every operation of the client reaches the backend's operation of the same
// name and brings its answer back whole.
func TestClientMirrorsBackend(t *testing.T) {
	at := time.Date(2025, 1, 2, 3, 4, 5, 6000, time.UTC)
	f := &resttest.Fake{
		ApplicationData: resttest.ApplicationData{
			Apps:         []apiv1.AppView{{Name: "a", Revision: 3, Created: at, Services: []apiv1.ServiceView{{Name: "s", Wanted: 2}}}},
			Explanations: map[string]apiv1.Explanation{"a.s.0": {Instance: "a.s.0", Notes: []string{"n"}}},
			ApplyAnswer:  apiv1.ApplyResult{Name: "a", Revision: 4, Change: "updated", Warnings: []string{"w"}},
		},
		InstanceData: resttest.InstanceData{
			InstanceList: []apiv1.InstanceView{{Instance: wire.Instance{V: 1, ID: "a.s.0", App: "a", Service: "s", State: wire.Running, History: []wire.Transition{{To: wire.Running, At: at}}}, Source: "root", AgeSeconds: 1.5}},
			LogText:      map[string]string{"a.s.0": "one\ntwo\nthree\n"},
		},
		NodeData: resttest.NodeData{
			ClusterList: []apiv1.ClusterView{{Name: "edge", Aggregate: &wire.Aggregate{Workers: 2, Reflects: wire.Rev{Inc: "x", N: 1 << 60}}}},
			WorkerList:  []rpc.WorkerView{{WorkerInfo: wire.WorkerInfo{Name: "w1"}, Cluster: "edge", Status: "ready"}},
			EntryLists:  map[string][]rpc.EntryView{"edge/w1": {{App: "a", Service: "s", Port: "http", Addr: "127.0.0.1:20000", Problem: "p"}}},
		},
		EventList: []apiv1.Event{{Seq: 1, At: at, What: "x"}, {Seq: 2, At: at, What: "y"}},
		State:     apiv1.StatusView{Role: "root", Name: "r", Started: at},
		UserData:  resttest.UserData{TokenAnswer: apiv1.TokenReply{Token: "t", Expires: at}},
	}
	_, _, admin := resttest.Serve(t, f, nil)
	c := newClient(t, admin)
	ctx := t.Context()
	check := func(name string, want any, got any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, want)
		}
	}
	apps, err := c.Applications.List(ctx)
	check("applications", f.Apps, apps, err)
	app, err := c.Applications.Get(ctx, "a")
	check("application", f.Apps[0], app, err)
	list, err := c.Instances.List(ctx, "a", "s")
	check("instances", f.InstanceList, list, err)
	list, err = c.Instances.List(ctx, "b", "")
	check("instances of b", []apiv1.InstanceView{}, list, err)
	inst, err := c.Instances.Get(ctx, "a.s.0")
	check("instance", f.InstanceList[0], inst, err)
	clusters, err := c.Clusters.List(ctx)
	check("clusters", f.ClusterList, clusters, err)
	workers, err := c.Workers.List(ctx)
	check("workers", f.WorkerList, workers, err)
	entries, err := c.Workers.Entries(ctx, "edge", "w1")
	check("entries", f.EntryLists["edge/w1"], entries, err)
	_, err = c.Workers.Entries(ctx, "edge", "w2")
	wantProblem(t, err, "not-found", "no such worker: edge/w2")
	page, err := c.Events.After(ctx, 1, 0)
	check("events", apiv1.EventPage{Events: f.EventList[1:], After: 2}, page, err)
	status, err := c.System.Status(ctx)
	check("status", f.State, status, err)
	ex, err := c.Instances.Explain(ctx, "a.s.0")
	check("explain", f.Explanations["a.s.0"], ex, err)
	chunk, err := c.Instances.Logs(ctx, "a.s.0", rpc.LogAsk{Offset: -2, Max: 5})
	check("logs", rpc.LogChunk{Data: []byte("two\nt"), Next: 9}, chunk, err)
	result, err := c.Applications.Apply(ctx, []byte("x"), true)
	check("apply", f.ApplyAnswer, result, err)
	token, err := c.Tokens.Create(ctx, apiv1.TokenRequest{Kind: "cluster", Cluster: "edge", TTLSeconds: 60})
	check("token", f.TokenAnswer, token, err)
	check("token request", []apiv1.TokenRequest{{Kind: "cluster", Cluster: "edge", TTLSeconds: 60}}, f.TokenRequests, nil)
	version, err := c.System.Version(ctx)
	check("version", "v-test", version.Version, err)
	if err := c.Applications.Delete(ctx, "a"); err != nil {
		t.Errorf("delete: %v", err)
	}
	_, err = c.Applications.Get(ctx, "b")
	wantProblem(t, err, "not-found", "no such application: b")
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, client.Context{Name: "x", Server: "https://" + addr})
	_, err = c.System.Status(t.Context())
	wantProblem(t, err, client.CodeUnreachable, addr+" does not answer: connection refused")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.System.Status(ctx); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("a cancelled request: %v", err)
	}
}

func TestServerThatIsNotVerge(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"))
			_ = c.Close()
		}
	}()
	_, err = newClient(t, client.Context{Name: "x", Server: "https://" + l.Addr().String()}).System.Status(t.Context())
	wantProblem(t, err, client.CodeTLS, "does not speak TLS")
}

func TestContextFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "verge", "contexts")
	a := resttest.NewAuthority(t)
	e := a.Context(t, "admin", "127.0.0.1:8470")
	e.Name, e.Token, e.ServerName = "dev", "s3cret", "root.verge"
	path, err := client.ContextPath(dir, "dev")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.WriteContext(path, e); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	got, err := client.ReadContext(path)
	if err != nil || got != e {
		t.Fatalf("read back %v, %v", got, err)
	}
	if _, err := client.New(got); err != nil {
		t.Errorf("not usable: %v", err)
	}
	if err := client.SetCurrentContext(dir, "dev"); err != nil {
		t.Fatal(err)
	}
	if name, err := client.CurrentContext(dir); err != nil || name != "dev" {
		t.Errorf("current %q, %v", name, err)
	}
	if names, err := client.ContextNames(dir); err != nil || !reflect.DeepEqual(names, []string{"dev"}) {
		t.Errorf("names %v, %v", names, err)
	}
	wantProblem(t, client.SetCurrentContext(dir, "prod"), "no-context", "does not exist")
	if _, err := client.ContextPath(dir, "../../etc/passwd"); err == nil {
		t.Error("a name left the folder")
	}
}

func TestContextFilesThatAreWrong(t *testing.T) {
	for name, text := range map[string]string{
		"unknown key":    "name: x\nserver: https://h:1\nkeyy: s3cret\n",
		"not yaml":       "\x00\x01s3cret",
		"no server":      "name: x\ntoken: s3cret\n",
		"plain http":     "name: x\nserver: http://h:1\n",
		"path in server": "name: x\nserver: https://h:1/v1\n",
		"half a pair":    "name: x\nserver: https://h:1\nkey: s3cret\n",
		"huge":           "name: " + strings.Repeat("s3cret", 100_000),
	} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := client.ReadContext(path)
		wantProblem(t, err, "bad-context", path)
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error quotes the file: %v", name, err)
		}
	}
}

func TestContextEntryKeepsItsSecrets(t *testing.T) {
	e := client.Context{Name: "n", Server: "https://h:1", Key: "s3cret", Token: "s3cret"}
	var b strings.Builder
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "context", e)
	b.WriteString(fmt.Sprintf("%v %+v %#v %s", e, e, e, e))
	if strings.Contains(b.String(), "s3cret") {
		t.Error(b.String())
	}
}

func newClient(t *testing.T, e client.Context) *client.Client {
	t.Helper()
	c, err := client.New(e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func wantProblem(t *testing.T, err error, code, text string) {
	t.Helper()
	var p *client.Problem
	if !errors.As(err, &p) || p.Code != code || !strings.Contains(err.Error(), text) || p.Remedy == "" {
		t.Fatalf("got %v, want problem %q with %q and a remedy", err, code, text)
	}
}

// A loop that is left as its context ends is not asked to go on.
func TestWatchEndsWithItsLoop(t *testing.T) {
	_, _, admin := resttest.Serve(t, &resttest.Fake{}, nil)
	c := newClient(t, admin)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for e, err := range c.Watch(ctx, client.WatchInstances) {
		if err != nil || e.Type != apiv1.WatchBegin {
			t.Errorf("got %+v, %v", e, err)
		}
		cancel()
		break
	}
}

// selectors are the names of a package that files use.
func selectors(t *testing.T, pkg string, files ...string) map[string]bool {
	t.Helper()
	used := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == pkg {
					used[s.Sel.Name] = true
				}
			}
			return true
		})
	}
	return used
}

// The client has every operation of the interface but those of nodes.
func TestEveryOperationIsInTheClient(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	used := selectors(t, "rest", files...)
	defined, err := filepath.Glob("../internal/rest/*.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range defined {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(name) == "nodes.go" {
			continue
		}
		ast.Inspect(f, func(node ast.Node) bool {
			v, ok := node.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			call, ok := v.Values[0].(*ast.CallExpr)
			if !ok {
				return true
			}
			fun := call.Fun
			if x, ok := fun.(*ast.IndexListExpr); ok {
				fun = x.X
			}
			if id, ok := fun.(*ast.Ident); ok && id.Name == "define" {
				if n++; !used[v.Names[0].Name] {
					t.Errorf("the client has no operation that asks for rest.%s", v.Names[0].Name)
				}
			}
			return true
		})
	}
	if n < 80 {
		t.Errorf("only %d operations were found", n)
	}
}

// Every group of operations has an example.
func TestEveryGroupHasAnExample(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "example_test.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range reflect.VisibleFields(reflect.TypeFor[client.Client]()) {
		if g.IsExported() && f.Scope.Lookup("Example"+g.Type.Name()) == nil {
			t.Errorf("there is no Example%s", g.Type.Name())
		}
	}
}
