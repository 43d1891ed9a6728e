package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// terrain is a lab in which the service network connects what runs:
//
//	root    with a relay
//	a       a-1 and a-2, which others can reach, and a-home
//	b       b-home
//	late    nothing at first; it joins b later
//
// a-home and b-home are behind a NAT each that gives every flow a port of its own,
// and have the same private address.
type terrain struct {
	t *testing.T // of the moment
	*lab.Lab
	front map[string]replica // by worker
}

// replica of a service.
type replica struct {
	id   string
	addr netip.Addr // IPv6
}

const terrainFile = `
seed: 4
links: {default: {latency: 1ms}}
hosts:
  root:   {role: root, flags: [--relay, ":8475", --network-pool, 10.128.0.0/22]}
  a:      {role: cluster, flags: [--interval, 1s]}
  b:      {role: cluster, flags: [--interval, 1s]}
  a-1:    {role: worker, cluster: a, flags: [--network, overlay, --label, at=a-1, --gateway, ":8480"]}
  a-2:    {role: worker, cluster: a, flags: [--network, overlay, --label, at=a-2]}
  a-home: {role: worker, cluster: a, nat: random, flags: [--network, overlay]}
  b-home: {role: worker, cluster: b, nat: random, flags: [--network, overlay]}
  late:   {}
`

// Front runs on each worker, back beside the one on a-1, and so does the spy, of
// another application.
const terrainShop = `application: shop
services:
  front:
    command: [testprogram]
    replicas: 4
    replace_after: 1s
    anti_affinity: {service: [front]}
    ports: [{name: http, ingress: {host: front.test}}]
    readiness: {http: {path: /healthz}}
  back:
    command: [testprogram]
    affinity: {labels: {at: a-1}}
    ports: [{name: http}]
    readiness: {http: {path: /healthz}}
  quiet:
    command: [sh, -c, PORT=81 exec testprogram]
    replicas: 4
    anti_affinity: {service: [quiet]}
`

const terrainSpy = `application: spy
services:
  main:
    command: [testprogram]
    affinity: {labels: {at: a-1}}
    ports: [{name: http}]
`

func newTerrain(t *testing.T) *terrain {
	t.Helper()
	return terrainOf(t, "net", terrainFile)
}

// terrainOf is the lab of a file.
func terrainOf(t *testing.T, name, file string) *terrain {
	t.Helper()
	needMachines(t)
	if err := lab.Possible(); err != nil {
		t.Fatal(err)
	}
	f, err := lab.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	f.Name = name
	dir := newDir(t)
	l, err := lab.Up(t.Context(), f, lab.Options{Base: filepath.Join(dir, "b"), Verge: programs.verge, Tool: programs.lab, Say: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	s := &terrain{t: t, Lab: l, front: map[string]replica{}}
	t.Cleanup(func() {
		if t.Failed() {
			s.dump()
		}
		if err := l.Down(); err != nil {
			t.Error(err)
		}
		if left := processesOf(dir); len(left) > 0 {
			t.Errorf("processes are left: %s", describe(left))
		}
	})
	return s
}

// dump prints the end of every log.
func (s *terrain) dump() {
	for host := range s.File().Hosts {
		for _, file := range []string{s.Log(host), filepath.Join(s.Dir(host), "engine.log")} {
			b, _ := os.ReadFile(file) // many have none
			lines := strings.Split(strings.TrimSpace(string(b)), "\n")
			s.t.Logf("--- %s %s\n%s", host, filepath.Base(file), strings.Join(lines[max(0, len(lines)-15):], "\n"))
		}
	}
}

func (s *terrain) run(name string, part func(t *testing.T)) {
	whole := s.t
	whole.Run(name, func(t *testing.T) {
		if whole.Failed() {
			t.Skip("an earlier part left the site in a state that nobody knows")
		}
		s.t = t
		defer func() { s.t = whole }()
		begin := time.Now()
		part(t)
		t.Logf("took %s", time.Since(begin).Round(time.Millisecond))
	})
}

// apply applies a descriptor at the root and waits until it holds.
func (s *terrain) apply(app, descriptor string) {
	s.t.Helper()
	c, err := s.Client("root")
	if err == nil {
		_, err = c.Applications.Apply(s.t.Context(), []byte(descriptor), false)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.holds(app)
}

func (s *terrain) holds(app string) {
	s.t.Helper()
	eventually(s.t, 20*time.Second, app+" holds", func() error {
		c, err := s.Client("root")
		if err != nil {
			return err
		}
		v, err := c.Applications.Get(context.Background(), app)
		if err == nil && !v.Holds {
			err = errors.New(v.Message)
		}
		return err
	})
}

// instances of an application, as the root knows them.
func (s *terrain) instances(app string) map[string]apiv1.InstanceView {
	s.t.Helper()
	c, err := s.Client("root")
	if err != nil {
		s.t.Fatal(err)
	}
	list, err := c.Instances.List(context.Background(), app, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return byID(list)
}

// fetch asks an address from a host.
func (s *terrain) fetch(host, addr, name, path string, timeout time.Duration) (string, error) {
	return fetchBy(&http.Client{Timeout: timeout, Transport: s.transport(host)}, addr, name, path)
}

// transport of requests from a host, each on a connection of its own.
func (s *terrain) transport(host string) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return s.Dial(ctx, host, network, addr)
	}}
}

// ask has the front of a worker ask a URL, on a connection of its own.
func (s *terrain) ask(worker, what string, within time.Duration) (string, error) {
	at := netip.AddrPortFrom(s.front[worker].addr, 80).String()
	return s.fetch(worker, at, "", "/get?within="+within.String()+"&url="+url.QueryEscape(what), within+5*time.Second)
}

// who says which instance has answered the front of a worker.
func (s *terrain) who(worker, what string, within time.Duration) (string, error) {
	text, err := s.ask(worker, "http://"+what+"/whoami", within)
	if err != nil {
		return "", err
	}
	var v who
	err = json.Unmarshal([]byte(text), &v)
	return v.Instance, err
}

// asks waits until the front of a worker has an answer from a service.
func (s *terrain) asks(worker, service string) {
	s.t.Helper()
	eventually(s.t, 20*time.Second, "the front on "+worker+" reaches "+service, func() error {
		got, err := s.who(worker, service, 5*time.Second)
		if err == nil && got == "" {
			err = errors.New("nobody has answered")
		}
		return err
	})
}

// name by which the front on a worker alone is reached.
func (s *terrain) name(worker string) string {
	id := s.front[worker].id
	return id[strings.LastIndexByte(id, '.')+1:] + ".instance.front"
}

// reach waits until the front on one worker reaches that on another by its name.
func (s *terrain) reach(from, to string) {
	s.t.Helper()
	eventually(s.t, 20*time.Second, "the front on "+from+" reaches that on "+to, func() error {
		got, err := s.who(from, s.name(to), 5*time.Second)
		if err == nil {
			err = differs("who answers", got, s.front[to].id)
		}
		return err
	})
}

// paths that a worker has through the tunnel, by the other's cluster and kind.
func (s *terrain) paths(cluster, from string) (map[string]int, error) {
	c, err := s.Client(cluster)
	if err != nil {
		return nil, err
	}
	r, err := c.Workers.Net(context.Background(), cluster, from)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, p := range r.Peers {
		if strings.HasPrefix(p.Via, "WireGuard") {
			out[p.Cluster+" "+p.Path]++
		}
	}
	return out, nil
}

// worker as its cluster knows it.
func (s *terrain) worker(cluster, name string) rpc.WorkerView {
	s.t.Helper()
	c, err := s.Client(cluster)
	if err != nil {
		s.t.Fatal(err)
	}
	list, err := c.Workers.List(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, w := range list {
		if w.Name == name {
			return w
		}
	}
	return rpc.WorkerView{}
}

// output of a program on a host.
func (s *terrain) output(host, name string, args ...string) string {
	s.t.Helper()
	var out []byte
	err := s.Do(host, func() (err error) {
		out, err = exec.Command(name, args...).CombinedOutput()
		return err
	})
	if err != nil {
		s.t.Fatalf("%s %s on %s: %v\n%s", name, strings.Join(args, " "), host, err, out)
	}
	return string(out)
}

var counterLine = regexp.MustCompile(`(?s)counter (\w+) \{\s+packets (\d+)`)

// refused are the packets that a worker has refused, by reason.
func (s *terrain) refused(host string) map[string]int {
	s.t.Helper()
	out := map[string]int{}
	for _, m := range counterLine.FindAllStringSubmatch(s.output(host, "nft", "list", "counters"), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			s.t.Fatal(err)
		}
		out[m[1]] += n
	}
	return out
}

// pid of an instance.
func (s *terrain) pid(id string) int {
	s.t.Helper()
	r, ok := runningIn(s.t, s.Dir(""))[id]
	if !ok {
		s.t.Fatalf("%s does not run", id)
	}
	return r.pid
}

// within calls f with the network of a process. What f opens keeps that network.
func within(t *testing.T, pid int, f func() error) error {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		if unix.Gettid() == os.Getpid() {
			// The first one does not. While it waits here f gets another.
			done <- within(t, pid, f)
			runtime.UnlockOSThread()
			return
		}
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			_ = ns.Close() // nothing is lost by it
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// TestServiceNetworkFailures takes a site through what the service network has to
// bear, over real processes. Its parts follow each other in one site.
func TestServiceNetworkFailures(t *testing.T) {
	t.Parallel()
	s := newTerrain(t)
	s.apply("shop", terrainShop)
	s.apply("spy", terrainSpy)
	for id, i := range s.instances("shop") {
		if i.Service == "front" {
			s.front[i.Worker] = replica{id, i.Addrs[0]}
		}
	}
	wantEqual(t, "workers that have a front", len(s.front), 4)
	s.run("all reach all", s.allReachAll)
	s.run("address pool exhausted", s.poolExhausted)
	s.run("without ports", s.withoutPorts)
	s.run("spoofing and scanning", s.spoofsAndScans)
	s.run("names", s.abusesNames)
	s.run("bad links", s.badLinks)
	s.run("a worker dies under load", s.workerDies)
	s.run("orchestrators gone", s.orchestratorsGone)
	s.run("overlapping pool, and nothing is left", s.overlapsAndLeaves)
	s.run("a worker is revoked", s.revoked)
}

var terrainWorkers = []string{"a-1", "a-2", "a-home", "b-home"}

// allReachAll: by names, each by the path that there has to be.
func (s *terrain) allReachAll(t *testing.T) {
	for _, from := range terrainWorkers {
		for _, to := range terrainWorkers {
			s.reach(from, to)
		}
	}
	eventually(t, 20*time.Second, "the gateway answers", func() error {
		got, err := s.fetch("a-1", "127.0.0.1:8480", "front.test", "/whoami", requestTimeout)
		if err == nil && !strings.Contains(got, "shop.front.") {
			err = fmt.Errorf("its answer is %q", got)
		}
		return err
	})
	for from, want := range map[string]map[string]int{
		"a-1": {"a direct": 2, "b direct": 1},
		// Two NATs that nobody can predict, and behind both the same address.
		"a-home": {"a direct": 2, "b relay": 1},
		"b-home": {"a direct": 2, "a relay": 1},
	} {
		// A path that a busy machine broke soon after it was made is tried anew 2 minutes later.
		eventually(t, 40*time.Second, from+" has its paths", func() error {
			got, err := s.paths(from[:1], from)
			if err == nil && !maps.Equal(got, want) {
				err = fmt.Errorf("they are %v, not %v", got, want)
			}
			return err
		})
	}
	s.netchecksRelay(t)
}
