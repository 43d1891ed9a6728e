package environment

import (
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/engine/enginetest"

	"github.com/verge-edge/verge/api"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	o := enginetest.Order(3, 1, 100)
	o.Spec.Command = []string{"front", "--listen=:${PORT_ADMIN_UI}"}
	o.Spec.Args = []string{"--store", "${VERGE_STORE_ADDR}", "$$HOME", "${MODE}"}
	o.Spec.Env = map[string]string{"MODE": "on ${VERGE_WORKER}", "PATH": "/opt/bin:${PATH}"}
	o.Spec.Ports = []api.Port{{Protocol: "http"}, {Name: "admin-ui"}}
	o.Peers = map[string][]api.Port{
		"store":   {{Name: "redis"}, {Name: "stats"}},
		"store-a": {{Name: "x"}}, "idle": nil,
		"s": {{Name: "first"}, {Name: "a"}}, "s-a": {{Name: "y"}},
	}
	around := Surroundings{
		Path: "/usr/bin", Cluster: "edge", Worker: "w1", Engine: "mark", Listen: "127.0.0.1", Work: "/w", Tmp: "/t",
		Ports: map[string]int{"http": 25001, "admin-ui": 25002},
		Addrs: map[string]map[string]string{
			"store":   {"redis": "127.0.0.1:20001", "stats": "127.0.0.1:20002"},
			"store-a": {"x": "127.0.0.1:20003"},
			"s":       {"first": "127.0.0.1:20004", "a": "127.0.0.1:20005"}, "s-a": {"y": "127.0.0.1:20006"},
		},
	}
	argv, vars, err := Resolve(&o, around)
	if err != nil {
		t.Fatal(err)
	}
	env := List(vars)
	if want := []string{"front", "--listen=:25002", "--store", "127.0.0.1:20001", "$HOME", "on w1"}; !slices.Equal(argv,
		want) {
		t.Errorf("got %q\nwant %q", argv, want)
	}
	for _, want := range []string{
		"PORT=25001", "PORT_HTTP=25001", "PORT_ADMIN_UI=25002", "PATH=/opt/bin:/usr/bin", "HOME=/w", "TMPDIR=/t",
		"VERGE_APP=shop", "VERGE_SERVICE=web", "VERGE_INSTANCE=shop.web.3", "VERGE_ORDINAL=3",
		"VERGE_WORKER=w1", "VERGE_CLUSTER=edge", "VERGE_LISTEN=127.0.0.1", "VERGE_ENGINE=mark",
		"VERGE_STORE_ADDR=127.0.0.1:20001", "VERGE_STORE_REDIS_ADDR=127.0.0.1:20001",
		"VERGE_STORE_STATS_ADDR=127.0.0.1:20002",
		"VERGE_S_A_ADDR=127.0.0.1:20006", // the service s-a, not the port a of s
	} {
		if !slices.Contains(env, want) {
			t.Errorf("environment lacks %s:\n%s", want, strings.Join(env, "\n"))
		}
	}
	for name, change := range map[string]func(*api.Service){
		"VERGE_INSTANCE": func(s *api.Service) { s.Env = map[string]string{"VERGE_INSTANCE": "a.b.0"} },
		"${GONE}":        func(s *api.Service) { s.Args = []string{"${GONE}"} },
		"empty":          func(s *api.Service) { s.Command = []string{"${EMPTY}"}; s.Env = map[string]string{"EMPTY": ""} },
	} {
		bad := enginetest.Order(0, 1, 100)
		change(bad.Spec)
		if _, _, err := Resolve(&bad, around); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
