package daemon

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/agent"
	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busconn"
	"github.com/verge-edge/verge/internal/bus/credentials"
	"github.com/verge-edge/verge/internal/cli"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// dialPlugin connects with the identity in dir, as a program in another language does.
func dialPlugin(t *testing.T, dir string) bus.Conn {
	t.Helper()
	return dialMixed(t, dir, dir, nil)
}

// dialMixed connects with the certificate of the identity in one folder, and the token and
// the bus key of that in another.
func dialMixed(t *testing.T, certDir, tokenDir string, refused func(error)) bus.Conn {
	t.Helper()
	joined, err := enroll.Joined(tokenDir)
	if err != nil {
		t.Fatal(err)
	}
	id, err := pki.LoadIdentity(certDir)
	if err != nil {
		t.Fatal(err)
	}
	key, err := enroll.Key(tokenDir)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := busconn.Dial(t.Context(), busconn.DialOptions{
		Name: "sage", Addresses: joined.Link,
		TLS: func() (*tls.Config, error) { return id.ClientTLS(joined.LinkName), nil },
		JWT: func() string { return joined.BusJWT }, Key: key, Refused: refused, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// Workers and plugins get on the bus with their own certificate, token and key, and not
// with the token and the key of one and the certificate of another.
func TestTheBusWantsOneIdentity(t *testing.T) {
	t.Parallel()
	s := &tiers{t: t, dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	s.startRoot()
	defer func() { s.root.Close() }()
	token, err := s.root.NewClusterToken(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	s.startCluster(token)
	defer func() { s.cluster.Close() }()
	defer s.idleWorkers(2)()
	made, err := s.client("edge").Tokens.Create(t.Context(), apiv1.TokenRequest{Kind: "plugin", Plugin: "w1"})
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[string]string{"w1": s.path("w1", engineapi.IdentityDir), "w2": s.path("w2", engineapi.IdentityDir),
		"plugin w1": filepath.Join(s.dir, "plugin")}
	if _, err := joinPlugin(t.Context(),
		cli.PluginJoin{Dir: dirs["plugin w1"], TokenFile: "-", Stdin: strings.NewReader(made.Token),
			Warn: func(string) {}}); err != nil {
		t.Fatal(err)
	}
	for of, tokenDir := range dirs {
		for name, certDir := range dirs {
			refused := make(chan error, 100)
			conn := dialMixed(t, certDir, tokenDir, func(err error) {
				select {
				case refused <- err:
				default:
				}
			})
			for answered := false; !answered; {
				up, changed := conn.Connected()
				if answered = up; up {
					if name != of {
						t.Errorf("the token of %s is accepted with the certificate of %s", of, name)
					}
					break
				}
				select {
				case <-changed:
				case err := <-refused:
					if answered = true; name == of {
						t.Errorf("%s is refused: %v", of, err)
					}
				case <-t.Context().Done():
					t.Fatal("no answer")
				}
			}
			conn.Close()
		}
	}
}

// A program joins with a token as a plugin, is asked over the bus, and decides; what it
// answers that it should not is worth as little as over HTTP; and revoking its keys ends
// it. Over real sockets, with a real root, cluster and agent.
func TestAPluginOnTheBus(t *testing.T) {
	t.Parallel()
	s := &tiers{t: t, dir: t.TempDir(), log: slog.New(slog.DiscardHandler), details: true}
	s.startRoot()
	defer func() { s.root.Close() }()
	token, err := s.root.NewClusterToken(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	s.startCluster(token)
	defer func() { s.cluster.Close() }()
	s.cluster.Set(cluster.Settings{Details: true, Plugins: []plugin.Config{{Name: "sage", URL: plugin.OnBus}}})
	edge := s.client("edge")
	defer s.idleWorkers(2)()

	// It joins, by the name that its token says, once.
	if _, err := s.client("root").Tokens.Create(t.Context(),
		apiv1.TokenRequest{Kind: "plugin", Plugin: "sage"}); code(err) != "elsewhere" {
		t.Errorf("the root makes a token for a plugin: %v", err)
	}
	if _, err := edge.Tokens.Create(t.Context(),
		apiv1.TokenRequest{Kind: "plugin", Plugin: "No.Name"}); code(err) != "bad-name" {
		t.Errorf("a token for a name that is none: %v", err)
	}
	made, err := edge.Tokens.Create(t.Context(), apiv1.TokenRequest{Kind: "plugin", Plugin: "sage"})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(s.dir, "sage")
	join := func(dir, token string) (cli.PluginIdentity, error) {
		return joinPlugin(t.Context(),
			cli.PluginJoin{Dir: dir, TokenFile: "-", Stdin: strings.NewReader(token), Warn: func(string) {}})
	}
	id, err := join(dir, made.Token)
	if err != nil {
		t.Fatal(err)
	}
	if id.Plugin != "sage" || id.Subject != "plugin.sage.*" || len(id.Servers) == 0 {
		t.Errorf("%+v", id)
	}
	for file, mode := range map[string]os.FileMode{id.Credentials: 0o600, id.Key: 0o600, id.CA: 0o644, id.Cert: 0o644,
		id.File: 0o644} {
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", file, st, err)
		}
	}
	if again, err := join(dir, ""); err != nil || again.Plugin != "sage" {
		t.Errorf("the same command again: %+v, %v", again, err)
	}
	list, err := edge.Plugins.List(t.Context())
	if err != nil || len(list) != 1 || !list[0].Registered || list[0].Last != nil || len(list[0].Identities) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := s.client("root").Plugins.List(t.Context()); code(err) != "elsewhere" {
		t.Errorf("the root lists plugins: %v", err)
	}
	if _, err := join(filepath.Join(s.dir, "thief"), made.Token); code(err) != "token-used" {
		t.Errorf("the token again, with other keys: %v", err)
	}
	if tok, err := s.cluster.NewWorkerToken(t.Context()); err != nil {
		t.Fatal(err)
	} else if _, err := join(filepath.Join(s.dir, "worker-token"), tok); code(err) != "token-kind" {
		t.Errorf("with the token of a worker: %v", err)
	}
	// Its certificate is good for the bus alone.
	if c, err := client.New(clientOf(t, s, dir)); err != nil {
		t.Fatal(err)
	} else if _, err := c.Workers.List(t.Context()); err == nil {
		t.Error("a plugin may use the interface of the cluster")
	}

	// It decides.
	conn := dialPlugin(t, dir)
	if err := conn.Publish("w.w1.report", []byte("x")); !errors.Is(err, bus.ErrForbidden) {
		t.Errorf("it may say what a worker says: %v", err)
	}
	var how atomic.Pointer[func(q plugin.Question) []byte]
	set := func(f func(q plugin.Question) []byte) { how.Store(&f) }
	if _, err := conn.Subscribe(credentials.PluginSubjects("sage"), func(_ context.Context, m bus.Msg) {
		var q plugin.Question
		if err := json.Unmarshal(m.Data, &q); err != nil {
			t.Errorf("asked %.100q: %v", m.Data, err)
		}
		if data := (*how.Load())(q); data != nil {
			if m.Respond(data) == nil {
				_ = m.Respond([]byte(`{"ranking":[{"id":"w1","score":1}]}`)) // the second is refused
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	s.eventually("it is connected", func() error {
		if ok, _ := conn.Connected(); !ok {
			return errors.New("not yet")
		}
		return nil
	})
	n := 0
	decided := func(what string, answer func(q plugin.Question) []byte,
		check func(d apiv1.Explanation, text string) bool) {
		t.Helper()
		set(answer)
		n++
		app := fmt.Sprintf("app%d", n)
		if _, err := s.client("root").Applications.Apply(t.Context(), []byte("application: "+app+`
services:
  web:
    command: ["true"]
    scheduler: plugin
    plugin: sage
    convergence_time: 3s
    resources: {cpu: 10m, memory: 1Mi}
`), false); err != nil {
			t.Fatal(err)
		}
		s.eventually(what, func() error {
			x, err := edge.Instances.Explain(t.Context(), app+".web.0")
			if err != nil {
				return err
			}
			text, err := json.Marshal(x)
			if err == nil && !check(x, string(text)) {
				err = fmt.Errorf("%s", text)
			}
			return err
		})
	}
	best := func(id string) func(plugin.Question) []byte {
		return func(plugin.Question) []byte { return []byte(`{"ranking":[{"id":"` + id + `","score":1}]}`) }
	}
	chose := func(id string) func(apiv1.Explanation, string) bool {
		return func(_ apiv1.Explanation, text string) bool {
			return strings.Contains(text, `"chosen":"`+id+`"`) && !strings.Contains(text, `"problem"`)
		}
	}
	problem := func(want string) func(apiv1.Explanation, string) bool {
		return func(_ apiv1.Explanation, text string) bool { return strings.Contains(text, want) }
	}
	decided("the plugin chooses the second", best("w2"), chose("w2"))
	decided("and the first", best("w1"), chose("w1"))
	decided("a worker that it was not offered", best("w9"), problem(`which is no candidate`))
	decided("an answer of 1 MiB and a bit", func(plugin.Question) []byte {
		return []byte(`{"reason":"` + strings.Repeat("x", plugin.MaxAnswer) + `"}`)
	}, problem("the answer has more than 1048576 bytes"))
	decided("it is well in between", best("w2"), chose("w2"))
	decided("an answer of 10 MB, for which it is cut off", func(plugin.Question) []byte {
		return []byte(`{"reason":"` + strings.Repeat("x", 10<<20) + `"}`)
	}, problem("did not answer in time"))
	decided("it is back", best("w1"), chose("w1"))

	list, err = edge.Plugins.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if v := list[0]; v.Calls["answered"] < 4 || v.Calls["late"] != 1 || v.Failure == nil ||
		v.Failure.Result != "late" || v.Last == nil || v.Last.Result != "answered" ||
		v.Last.Candidates != 2 || v.Last.Instances != 1 || v.Failed != 0 || v.Services != n {
		t.Errorf("%+v, last %+v, failure %+v", v, v.Last, v.Failure)
	}

	// Its keys are taken back.
	if err := s.client("root").Plugins.Revoke(t.Context(), "sage"); code(err) != "elsewhere" {
		t.Errorf("at the root: %v", err)
	}
	if err := edge.Plugins.Revoke(t.Context(), "nobody"); code(err) != "no-such-plugin" {
		t.Errorf("a plugin that there is not: %v", err)
	}
	if err := edge.Plugins.Revoke(t.Context(), "sage"); err != nil {
		t.Fatal(err)
	}
	if _, err := join(dir, ""); code(err) != rpc.CodeRemoved {
		t.Errorf("what was revoked is renewed: %v", err)
	}
	decided("rom decides once its keys are revoked", best("w1"), problem("it is not connected to the bus"))
	fresh, err := edge.Tokens.Create(t.Context(), apiv1.TokenRequest{Kind: "plugin", Plugin: "sage"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "joined.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := join(dir, fresh.Token); code(err) != rpc.CodeRemoved {
		t.Errorf("it joins again with the keys that were revoked: %v", err)
	}
	other := filepath.Join(s.dir, "sage-2")
	if _, err := join(other, fresh.Token); err != nil {
		t.Fatalf("with other keys: %v", err)
	}

	// While it stays its certificate is renewed when half of its life is over, and not
	// before.
	expires := func() time.Time {
		t.Helper()
		list, err := edge.Plugins.List(t.Context())
		if err != nil || len(list) != 1 || len(list[0].Identities) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[0].Identities[0].Expires
	}
	first := expires()
	var said []string
	looks := 0
	stay, leave := context.WithCancel(t.Context())
	defer leave()
	if err := keepPluginBy(stay, cli.PluginKeep{
		Dir: other, Say: func(s string) { said = append(said, s) },
		Sleep: func(context.Context, time.Duration) error {
			switch looks++; looks {
			case 2:
				if now := expires(); !now.Equal(first) || len(said) > 0 {
					t.Errorf("renewed at once: until %s, %q", now, said)
				}
				s.now.ahead.Add(int64(200 * 24 * time.Hour))
			case 3:
				leave()
			}
			return nil
		},
	}, s.now.clock(other)); err != nil {
		t.Fatal(err)
	}
	renewed, err := enroll.Joined(other)
	if err != nil {
		t.Fatal(err)
	}
	if now := expires(); now.Sub(first) < 199*24*time.Hour || !pki.ExpiresOf(renewed.Chain).Equal(now) ||
		len(said) != 1 || !strings.Contains(said[0], "was renewed") {
		t.Errorf("until %s after %s, its own until %s; %q", now, first, pki.ExpiresOf(renewed.Chain), said)
	}
}

// clientOf is a context for the cluster with the certificate of the identity in dir.
func clientOf(t *testing.T, s *tiers, dir string) client.Context {
	t.Helper()
	e, err := client.ReadContext(s.path("edge", "context.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cert, key := pki.IdentityFiles(dir)
	for file, to := range map[string]*string{cert: &e.Cert, key: &e.Key} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		*to = string(data)
	}
	return e
}

// idleWorkers starts w1 to wN, which have room and run nothing; it returns what ends
// them.
func (s *tiers) idleWorkers(n int) (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, n)
	for i := range n {
		token, err := s.cluster.NewWorkerToken(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		name := fmt.Sprintf("w%d", i+1)
		go func() {
			done <- agent.Run(ctx, agent.Options{
				Dir: s.path(name), Name: name, TokenFile: "-", Stdin: strings.NewReader(token),
				Cluster: s.cluster.Link(), Log: s.log,
				Capacity: api.Resources{CPU: 4000, Memory: 1 << 30, Disk: 10 << 30},
				Engine:   func(engineapi.EngineConfig) (engineclient.Client, error) { return &idleEngine{}, nil },
				Clock:    s.now.clock(s.path(name, engineapi.IdentityDir)),
			})
		}()
	}
	s.eventually("the workers are there", func() error {
		if got := s.root.Ready()["edge"]; got != n {
			return fmt.Errorf("%d of %d are ready", got, n)
		}
		return nil
	})
	return func() {
		cancel()
		for range n {
			if err := <-done; err != nil && ctx.Err() == nil {
				s.t.Error(err)
			}
		}
	}
}
