package cli

import (
	"context"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cli/daemonflags"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

func TestDaemonFlags(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	var root daemonflags.RootFlags
	var cluster daemonflags.ClusterFlags
	var worker daemonflags.WorkerFlags
	var dev daemonflags.DevFlags
	f.daemons = daemonflags.Daemons{
		Root:    func(_ context.Context, v daemonflags.RootFlags) error { root = v; return nil },
		Cluster: func(_ context.Context, v daemonflags.ClusterFlags) error { cluster = v; return nil },
		Worker:  func(_ context.Context, v daemonflags.WorkerFlags) error { worker = v; return nil },
		Dev:     func(_ context.Context, v daemonflags.DevFlags) error { dev = v; return errors.New("port taken") },
	}
	f.env = map[string]string{"HOME": "/home/u", "VERGE_LOG_FORMAT": "json", "VERGE_ADVERTISE": "a.example,10.0.0.1",
		"VERGE_API": "127.0.0.1:1", "VERGE_CONTEXT": "/nowhere"}

	if r := f.run("root", "--data-dir", "/d", "--api", "[::1]:0"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	root.Process = daemonflags.Process{LogFormat: root.LogFormat, LogLevel: root.LogLevel, Version: root.Version}
	want := daemonflags.RootFlags{Process: daemonflags.Process{LogFormat: "json", LogLevel: "info", Version: "v-test"},
		DataDir: "/d", API: "[::1]:0", Link: "0.0.0.0:8471",
		Advertise: []string{"a.example", "10.0.0.1"}, ClusterDeadAfter: time.Minute}
	if !reflect.DeepEqual(root, want) {
		t.Errorf("root got %+v, want %+v", root, want)
	}

	if r := f.run("cluster", "--name", "edge", "--area", "north", "--area", "coast", "--token-file", "-",
		"--share-details", "--interval", "2s",
		"--operator", "ACME Ltd.", "--location", "48,11", "--label", "site=shop"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if cluster.DataDir == "" || cluster.Name != "edge" || len(cluster.Areas) != 2 || cluster.TokenFile != "-" ||
		!cluster.ShareDetails || cluster.Interval != 2*time.Second || cluster.Operator != "ACME Ltd." ||
		*cluster.Location != (api.Point{48, 11}) || cluster.Labels["site"] != "shop" || cluster.Link != ":8472" {
		t.Errorf("cluster got %+v", cluster)
	}
	if cluster.Stdin == nil || cluster.Stdout == nil || cluster.Stderr == nil {
		t.Error("cluster has no standard streams")
	}

	delete(f.env, "VERGE_ADVERTISE")
	if r := f.run("worker", "--cpus", "1.5", "--memory", "2Gi", "--reserve", "12.5%", "--label", "rack=1,gpu=no",
		"--data", "none", "--location", "48.14, -11.58",
		"--network", "auto", "--wireguard-port", "51820", "--uplink", "20Mbps", "--mtu", "1400",
		"--relay", ":8475", "--relay-ports", "40000-40999", "--relay-rate", "5Mbps"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if worker.CPUs != 1500 || worker.Memory != 2<<30 || worker.Disk != 0 || worker.Reserve != 0.125 ||
		worker.Labels["gpu"] != "no" || worker.Data != "" || *worker.Location != (api.Point{48.14, -11.58}) ||
		!regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`).MatchString(worker.Name) ||
		worker.Tunnel != (wire.TunnelConfig{Port: 51820, Uplink: 20_000_000, MTU: 1400}) ||
		worker.Tunnel.Shaped() != 19_000_000 ||
		worker.Relay != (wire.RelayConfig{Listen: ":8475", Ports: [2]uint16{40000, 40999}, Rate: 5_000_000}) {
		t.Errorf("worker got %+v", worker)
	}

	sage := []plugin.Config{{Name: "sage", URL: plugin.OnBus, Joint: true}}
	for _, role := range []string{"cluster", "dev"} {
		_ = f.run(role, "--plugin", "sage=nats:", "--plugin-joint", "sage", "--scheduler", "plugin:sage")
	}
	if !reflect.DeepEqual(cluster.Plugins, sage) || !reflect.DeepEqual(dev.Plugins, sage) ||
		cluster.Scheduler != "plugin:sage" || dev.Scheduler != "plugin:sage" {
		t.Errorf("plugins %+v %q, %+v %q", cluster.Plugins, cluster.Scheduler, dev.Plugins, dev.Scheduler)
	}

	r := f.run("dev", "--workers", "3")
	if r.code != 1 || !strings.Contains(r.stderr, "verge: port taken") {
		t.Errorf("%+v", r)
	}
	if !reflect.DeepEqual(dev.Clusters, []string{"edge", "fog", "cloud"}) || dev.Workers != 3 || dev.DataDir != "" ||
		dev.API != "127.0.0.1:1" || dev.Gateway != "127.0.0.1:8480" {
		t.Errorf("dev got %+v", dev)
	}
}

func TestDaemonFlagsThatAreWrong(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	for line, want := range map[string]string{
		"root --api 8470":                                       "HOST:PORT",
		"cluster --scheduler plugin":                            "plugin:NAME",
		"cluster --scheduler plugin:x":                          "--plugin registers",
		"dev --scheduler plugin:x":                              "--plugin registers",
		"cluster --plugin a=nats:x":                             "nats:, https://",
		"cluster --plugin a=nats: --plugin-token-file a=f":      "identity of the cluster",
		"root --api :http":                                      "port",
		"root --api :99999":                                     "port",
		"root --link a/b:1":                                     "host name",
		"root --advertise host:1":                               "without a port",
		"root --cluster-dead-after 0s":                          "more than 0",
		"root --log-format xml":                                 "one of text, json",
		"root --log-level loud":                                 "one of debug",
		"root extra":                                            "one argument too many",
		"cluster --name Edge":                                   "DNS label",
		"cluster --interval 11s":                                "1s to 10s",
		"cluster --area north/sea":                              "DNS label",
		"worker --cpus lots":                                    "not an amount of cpu",
		"worker --reserve 5":                                    "percentage",
		"worker --reserve NaN%":                                 "percentage",
		"worker --advertise a b":                                "one argument too many",
		"worker --name w_1":                                     "DNS label",
		"worker --gateway :80 --gateway-proxy-from 10.0.0.1/24": "10.0.0.0/24",
		"worker --gateway :80 --gateway-proxy-from balancer":    "10.0.0.0/24",
		"worker --gateway-proxy-from 10.0.0.0/24":               "--gateway",
		"worker --gateway 80":                                   "HOST:PORT",
		"worker --wireguard-port 99999":                         "auto or a port",
		"worker --uplink 20":                                    "not a bandwidth",
		"worker --uplink 20kbps":                                "at least 100kbps",
		"worker --mtu 9000":                                     "1280 to 1920",
		"worker --network loopback --mtu 1400":                  "--network auto or overlay",
		"worker --relay 8475":                                   "HOST:PORT",
		"worker --relay :8475 --advertise none":                 "reach the relay",
		"worker --relay-rate 5Mbps":                             "given with --relay-ports",
		"root --relay :8475 --relay-ports 9-1":                  "whose first port",
		"worker --location 48.14":                               "not a point",
		"worker --location 91,0":                                "latitude",
		"worker --location 0,NaN":                               "not a point",
		"worker --label -a=b":                                   "key of a label",
		"worker --label a=" + strings.Repeat("b", 64):           "value of a label",
		"cluster --location here":                               "not a point",
		"cluster --label a!=b":                                  "key of a label",
		"cluster --operator " + strings.Repeat("x", 201):        "at most 200",
		"dev --clusters edge,edge":                              "twice",
		"dev --workers 0":                                       "1 to 100",
		"engine":                                                "--data-dir",
		"engine --data-dir /d":                                  "lacks that role",
		"worker --name w1 --data-dir /d --label x":              "label",
		"cluster --data-dir /d --name edge":                     "lacks that role",
		"root --cluster-dead-after 5":                           "duration",
		"worker --data-dir /d --advertise host:1:2":             "host name",
	} {
		r := f.run(strings.Fields(line)...)
		if r.code != 1 || !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, "→") {
			t.Errorf("verge %s: exit %d: %s", line, r.code, r.stderr)
		}
	}
	f.env["VERGE_WORKERS"] = "many"
	if r := f.run("dev"); r.code != 1 || !strings.Contains(r.stderr, "VERGE_WORKERS") {
		t.Errorf("%+v", r)
	}
}
