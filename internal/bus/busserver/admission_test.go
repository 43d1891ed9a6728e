package busserver_test

import (
	"crypto/tls"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/verge-edge/verge/internal/bus/busserver"
	"github.com/verge-edge/verge/internal/bus/credentials"
)

// A token counts only with the certificate of the same node: whoever has the token and
// the key of another one is refused, and each is accepted with its own.
func TestTokenNeedsItsCertificate(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	edge := startCluster(t, a, "edge", t.TempDir(), nil)
	type user struct {
		name, token string
		key         credentials.Key
	}
	var users []user
	add := func(name string, issue func(name, key string) (string, error)) {
		key := newKey(t)
		token, err := issue(name, key.Public())
		if err != nil {
			t.Fatal(err)
		}
		users = append(users, user{userOf(t, token), token, key})
	}
	add("w1", edge.AddWorker)
	add("w2", edge.AddWorker)
	add("w1", edge.AddPlugin)
	add("sage", edge.AddPlugin)
	// Another key of the same name is the same node: a worker that has joined again.
	add("w1", edge.AddWorker)
	for _, of := range users {
		for _, name := range []string{"w1", "w2", "plugin/w1", "plugin/sage", "", "$own", "edge"} {
			t.Run("token of "+of.name+" with certificate of "+name, func(t *testing.T) {
				t.Parallel()
				nc, err := nats.Connect("nats://"+edge.Addr(), rawOptions(a.client(name, "cluster.test"),
					nats.UserJWT(func() (string, error) { return of.token, nil }, of.key.Sign))...)
				if err == nil {
					nc.Close()
				}
				if accepted := err == nil; accepted != (name == of.name) {
					t.Errorf("accepted: %v, %v", accepted, err)
				}
			})
		}
	}
}

// A cluster with its own certificate does not get into the account of another one whose
// token and key it has.
func TestLinkNeedsItsCertificate(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	lines := &lineCounter{}
	root, err := busserver.StartRoot(t.Context(), busserver.RootOptions{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: a.server("root.test"), Peer: commonName, Log: slog.New(lines),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	up := upstream(t, a, root, "fog")
	up.TLS = a.client("edge", "root.test")
	fog := startCluster(t, a, "fog", t.TempDir(), up)
	eventually(t, "two refusals, or a link", func() bool {
		linked, _ := fog.UpConnected()
		return lines.n.Load() >= 2 || linked
	})
	if linked, _ := fog.UpConnected(); linked {
		t.Fatal("fog's token and key are accepted with the certificate of edge")
	}
	if !fog.Refused() {
		t.Error("the cluster does not know that it was refused")
	}
	// The same token and key with the certificate of their cluster.
	up.TLS = a.client("fog", "root.test")
	if err := fog.SetUpstream(*up); err != nil {
		t.Fatal(err)
	}
	waitUp(t, fog.Up(), true)
}

// A server does not start without anything to say whom a certificate names.
func TestPeerIsRequired(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	if _, err := busserver.StartRoot(t.Context(), busserver.RootOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: a.server("x"), Log: quiet(t)}); err == nil {
		t.Error("a root starts")
	}
	if _, err := busserver.StartCluster(t.Context(), busserver.ClusterOptions{Name: "edge", Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: a.server("x"), Log: quiet(t)}); err == nil {
		t.Error("a cluster starts")
	}
}

// The compiler does not compare the declaration of a linked function with the function.
// A change in the library must fail here and not in a running server.
func TestLinkedNames(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/nats-io/nats-server/v2/server").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"getOpts":                           "func (s *Server) getOpts() *Options",
		"processClientOrLeafAuthentication": "func (s *Server) processClientOrLeafAuthentication(c *client, opts *Options) (authorized bool)",
		"changeRateLimitLogInterval":        "func (s *Server) changeRateLimitLogInterval(d time.Duration)",
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || want[fn.Name.Name] == "" {
				continue
			}
			var text strings.Builder
			if err := format.Node(&text, set, &ast.FuncDecl{Recv: fn.Recv, Name: fn.Name, Type: fn.Type}); err != nil {
				t.Fatal(err)
			}
			if text.String() != want[fn.Name.Name] {
				t.Errorf("the library declares\n\t%s\nand this package links\n\t%s", &text, want[fn.Name.Name])
			}
			delete(want, fn.Name.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("not found in the library: %v", want)
	}
}

// BenchmarkConnect measures a worker's connect: TLS with both certificates, the token, and
// the first answer of the server.
func BenchmarkConnect(b *testing.B) {
	a := newCA(b)
	edge := startCluster(b, a, "edge", b.TempDir(), nil)
	key := newKey(b)
	jwt, err := edge.AddWorker("w1", key.Public())
	if err != nil {
		b.Fatal(err)
	}
	config := a.client("w1", "cluster.test")
	config.MinVersion = tls.VersionTLS13
	for b.Loop() {
		nc, err := nats.Connect("nats://"+edge.Addr(), rawOptions(config, nats.UserJWT(func() (string, error) { return jwt, nil }, key.Sign))...)
		if err != nil {
			b.Fatal(err)
		}
		nc.Close()
	}
}
