package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Three workers of one cluster. One of them is behind a NAT, so the way to it is one that
// it has made itself.
const upgradedFile = `
seed: 12
links: {default: {latency: 1ms}}
hosts:
  root:   {role: root, flags: [--relay, ":8475"]}
  edge:   {role: cluster, flags: [--interval, 1s]}
  edge-1: {role: worker, cluster: edge, flags: [--network, overlay, --upgrades, any, --label, at=edge-1, --gateway, ":8480"]}
  edge-2: {role: worker, cluster: edge, flags: [--network, overlay, --upgrades, any, --label, at=edge-2]}
  home:   {role: worker, cluster: edge, nat: random, flags: [--network, overlay, --upgrades, any, --label, at=home]}
`

// Of the services one is asked by request, through the routers, and the others by
// connection, through the kernel alone.
const upgradedShop = `application: shop
services:
  front:
    command: [testprogram]
    affinity: {labels: {at: edge-1}}
    ports: [{name: http, ingress: {host: front.test}}]
    readiness: {http: {path: /healthz}}
  near:
    command: [testprogram]
    affinity: {labels: {at: edge-1}}
    ports: [{name: plain, protocol: tcp, number: 81}]
    readiness: {http: {path: /healthz}}
  far:
    command: [testprogram]
    affinity: {labels: {at: edge-2}}
    ports: [{name: plain, protocol: tcp, number: 81}]
    readiness: {http: {path: /healthz}}
  house:
    command: [testprogram]
    affinity: {labels: {at: home}}
    ports: [{name: plain, protocol: tcp, number: 81}]
    readiness: {http: {path: /healthz}}
  api:
    command: [testprogram]
    affinity: {labels: {at: edge-2}}
    ports: [{name: http}]
    readiness: {http: {path: /healthz}}
`

// TestUpgradeInTheServiceNetwork lets engines that hold a service network go on with
// another program, while connections through it are open and others are opened, by names
// and by addresses, within a worker, between two, and to one behind a NAT.
func TestUpgradeInTheServiceNetwork(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	s := terrainOf(t, "upgraded", upgradedFile)
	next := programOfVersion(t, nextVersion, nil)
	s.apply("shop", upgradedShop)
	for _, host := range []string{"edge-1", "edge-2", "home"} {
		// As most machines have one: what finds no way into the tunnel could go there.
		if host != "home" {
			s.output(host, "ip", "route", "replace", "default", "dev", "eth0")
		}
		s.output(host, "ip", "-6", "route", "replace", "default", "dev", "eth0")
		s.output(host, "nft", "add table inet out; add chain inet out post { type filter hook postrouting priority 300; }; "+
			"add rule inet out post oifname eth0 ip daddr 10.128.0.0/9 counter; add rule inet out post oifname eth0 ip6 daddr fc00::/7 meta l4proto != ipv6-icmp counter")
	}
	for _, from := range []string{"front", "far", "house"} {
		for _, to := range []string{"front", "near:81", "far:81", "house:81", "api"} {
			eventually(t, 20*time.Second, from+" reaches "+to, func() error { return s.askFrom(from, to, 3*time.Second) })
		}
	}
	s.run("a worker's own", func(t *testing.T) {
		s.goesThrough(t, func() {
			said := s.output("edge-1", programs.verge, "worker", "upgrade", "--data-dir", s.Dir("edge-1"), "--binary", next, "--drain", "5m")
			if !strings.Contains(said, "the engine is "+nextVersion) {
				t.Errorf("it says %q", said)
			}
		})
	})
	s.run("a program that does not work", func(t *testing.T) {
		bad := scriptAt(t, filepath.Join(newDir(t), "bad"), "#!/bin/sh\n[ \"$1\" != version ] || exec "+programs.verge+" \"$@\"\nexit 3\n")
		s.goesThrough(t, func() {
			said := s.output("edge-2", "sh", "-c", programs.verge+" worker upgrade --data-dir "+s.Dir("edge-2")+" --drain 5m --binary "+bad+" 2>&1; true")
			if !strings.Contains(said, "the former one has taken over again") {
				t.Errorf("it says %q", said)
			}
		})
	})
	s.run("all, by their cluster", func(t *testing.T) {
		s.goesThrough(t, func() {
			s.output("edge", programs.verge, "upgrade", "start", "--context", s.Dir("edge")+"/context.yaml", "--binary", next, "--soak", "2s", "--timeout", "3m")
			for _, host := range []string{"edge-1", "edge-2", "home"} {
				wantEqual(t, "the version of "+host, s.worker("edge", host).Version, nextVersion)
			}
		})
	})
}

// at is a port of an instance of the shop, at an address of its own.
func (s *terrain) at(service string, port uint16) netip.AddrPort {
	s.t.Helper()
	i := s.instances("shop")["shop."+service+".0"]
	if len(i.Addrs) == 0 {
		s.t.Fatalf("%s has no address: %+v", service, i)
	}
	return netip.AddrPortFrom(i.Addrs[0], port)
}

// shopHosts are the workers of services of the shop that others are asked from.
var shopHosts = map[string]string{"front": "edge-1", "near": "edge-1", "far": "edge-2", "house": "home", "api": "edge-2"}

// clientIn sends requests from the network of an instance.
func (s *terrain) clientIn(service string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		err = s.Inside(shopHosts[service], "shop."+service+".0", func() (err error) {
			c, err = (&net.Dialer{}).DialContext(ctx, network, addr)
			return err
		})
		return c, err
	}}}
}

// askFrom has an instance ask a service by its name, on a connection of its own: as
// everybody does it, with a client's resolver and timeout.
func (s *terrain) askFrom(service, what string, timeout time.Duration) error {
	path := fmt.Sprintf("/get?within=%s&url=http://%s/whoami", timeout, what)
	_, err := s.fetch(shopHosts[service], s.at(service, portIn(service)).String(), "", path, timeout+5*time.Second)
	return err
}

// portIn is the port of a service of the shop.
func portIn(service string) uint16 {
	if service == "front" || service == "api" {
		return 80
	}
	return 81
}

// goesThrough runs what must neither break a connection through the service network, nor
// keep one from being opened, nor end an instance, nor let a packet of the network out of
// a machine as it is.
func (s *terrain) goesThrough(t *testing.T, what func()) {
	t.Helper()
	pids := s.pidsOf("shop")
	long := map[string]*stream{"the gateway": beginStreamBy(t, &http.Client{Transport: s.transport("edge-1")}, "127.0.0.1:8480", "front.test")}
	for _, way := range [][2]string{
		{"front", "near"}, {"front", "far"}, {"front", "house"}, {"front", "api"}, {"far", "front"}, {"far", "house"}, {"house", "far"}, {"house", "front"},
	} {
		from, to := way[0], way[1]
		name := from + " to " + to
		long[name+", an instance"] = beginStreamBy(t, s.clientIn(from), s.at(to, portIn(to)).String(), "")
		long[name+", a service"] = beginStreamBy(t, s.clientIn(from), netip.AddrPortFrom(s.service(from, to), portIn(to)).String(), "")
	}
	for name, x := range long {
		eventually(t, 20*time.Second, "there is a stream: "+name, func() error { return x.beyond(2) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	asked, failed, slowest := 0, []string(nil), map[string]time.Duration{}
	for _, from := range []string{"front", "far", "house"} {
		for _, to := range []string{"near:81", "far:81", "house:81", "api"} {
			all.Go(func() {
				tick := time.NewTicker(100 * time.Millisecond)
				defer tick.Stop()
				for ctx.Err() == nil {
					begun := time.Now()
					err := s.askFrom(from, to, 10*time.Second)
					mu.Lock()
					asked++
					slowest[from+" to "+to] = max(slowest[from+" to "+to], time.Since(begun))
					if err != nil {
						failed = append(failed, fmt.Sprintf("%s did not reach %s, after %s: %v", from, to, time.Since(begun).Round(time.Millisecond), err))
					}
					mu.Unlock()
					<-tick.C
				}
			})
		}
	}
	begun := time.Now()
	what()
	took := time.Since(begun)
	was := map[string]int{}
	for name, x := range long {
		x.mu.Lock()
		was[name] = x.last
		x.mu.Unlock()
	}
	for name, x := range long {
		eventually(t, 20*time.Second, "a stream goes on: "+name, func() error { return x.beyond(was[name] + 20) })
	}
	cancel()
	all.Wait()
	t.Logf("it took %s; of %d requests the slowest took %v", took.Round(10*time.Millisecond), asked, slowest)
	if len(failed) > 0 {
		t.Errorf("of %d requests %d failed: %s", asked, len(failed), strings.Join(failed, "\n"))
	}
	for _, x := range long {
		x.close()
	}
	if now := s.pidsOf("shop"); !maps.Equal(now, pids) {
		t.Errorf("processes of instances were %v, are %v", pids, now)
	}
	for _, host := range []string{"edge-1", "edge-2", "home"} {
		if said := s.output(host, "nft", "list", "table", "inet", "out"); strings.Count(said, "packets 0 ") != 2 {
			t.Errorf("packets of the service network have left %s as they are:\n%s", host, said)
		}
	}
}

// service is an address by which an instance reaches a service, as its worker's name
// server says it.
func (s *terrain) service(from, to string) (a netip.Addr) {
	s.t.Helper()
	server := net.JoinHostPort(nameServers(s.t, s.pid("shop."+from+".0"))[0], "53")
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (c net.Conn, err error) {
		err = s.Inside(shopHosts[from], "shop."+from+".0", func() (err error) {
			c, err = (&net.Dialer{}).DialContext(ctx, network, server)
			return err
		})
		return c, err
	}}
	eventually(s.t, 20*time.Second, from+" finds "+to, func() error {
		list, err := r.LookupNetIP(context.Background(), "ip6", to+".default.shop.default.verge.internal.")
		if err == nil && len(list) == 0 {
			err = errors.New("it has no address")
		}
		if err == nil {
			a = list[0]
		}
		return err
	})
	return a
}
