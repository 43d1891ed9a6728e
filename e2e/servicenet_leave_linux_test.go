package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

var deviceOfInstance = regexp.MustCompile(`^device vg[0-9a-f]{5}i`)

// overlapsAndLeaves: a machine that is in the pool itself becomes a worker, is
// killed, and leaves.
func (s *terrain) overlapsAndLeaves(t *testing.T) {
	s.output("late", "sh", "-c", "ip link add shop0 type bridge && ip link set shop0 addrgenmode none && ip addr add 10.128.2.1/23 dev shop0 && ip link set shop0 up")
	had := s.kernel("late")
	c, err := s.Client("b")
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.Tokens.Create(t.Context(), apiv1.TokenRequest{Kind: "worker"})
	if err != nil {
		t.Fatal(err)
	}
	file := s.Dir("late") + ".token"
	if err := os.WriteFile(file, []byte(token.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func() {
		t.Helper()
		if _, err := s.Start("late", "env", "PATH="+programs.dir+":"+os.Getenv("PATH"), programs.verge, "worker", "--data-dir", s.Dir("late"),
			"--name", "late", "--advertise", s.Address("late").String(), "--network", "overlay", "--label", "at=late", "--token-file", file); err != nil {
			t.Fatal(err)
		}
	}
	start()
	const tail = `application: tail
services:
  main: {command: [testprogram], affinity: {labels: {at: late}}, ports: [{name: http}]}
`
	eventually(t, 10*time.Second, "it is ready", func() error { return differs("status", s.worker("b", "late").Status, "ready") })
	s.apply("tail", tail)
	i := s.instances("tail")["tail.main.0"]
	if len(i.Addrs) != 1 || i.Addrs[0].Is4() {
		t.Fatalf("it has %v, and should have IPv6 alone", i.Addrs)
	}
	if rules := s.output("late", "nft", "list", "ruleset"); !strings.Contains(rules, i.Addrs[0].String()) {
		t.Errorf("%s is in no rule:\n%s", i.Addrs[0], rules)
	}
	var v rpc.WorkerView
	eventually(t, 10*time.Second, "its cluster knows its place", func() error {
		if v = s.worker("b", "late"); v.Lease == nil {
			return errors.New("it has said nothing of it yet")
		}
		return nil
	})
	problems := strings.Join(v.Problems, "\n")
	for _, words := range []string{"10.128.2.0/23", "shop0", "--network-pool"} {
		// It may be the one for which there is no IPv4 anyway.
		if v.Lease.IPv4.IsValid() && !strings.Contains(problems, words) {
			t.Errorf("%q is not in its problems: %s", words, problems)
		}
	}
	said := s.output("late", "sh", "-c", programs.verge+" doctor worker --data-dir "+s.Dir("late")+"; true")
	if !strings.Contains(said, "10.128.2.0/23") || !strings.Contains(said, "--network-pool") {
		t.Errorf("the doctor does not say it:\n%s", said)
	}

	// Everything of it is killed; what the kernel has stays until it is back.
	for _, p := range processesOf(s.Dir("late")) {
		_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended by another's death
	}
	eventually(t, 5*time.Second, "all is dead", func() error { return differs("processes", len(processesOf(s.Dir("late"))), 0) })
	root, err := s.Client("root")
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Applications.Delete(t.Context(), "tail"); err != nil {
		t.Fatal(err)
	}
	start()
	eventually(t, 20*time.Second, "nothing is left of its instance", func() error {
		for what := range s.kernel("late") {
			if strings.Contains(what, "netns/") || deviceOfInstance.MatchString(what) {
				return errors.New(what)
			}
		}
		if rules := s.output("late", "nft", "list", "ruleset"); strings.Contains(rules, i.Addrs[0].String()) {
			return errors.New("a rule for " + i.Addrs[0].String())
		}
		return nil
	})

	s.apply("tail", tail)
	leave := func(flags string) string {
		return s.output("late", "sh", "-c", programs.verge+" worker leave --data-dir "+s.Dir("late")+" "+flags+" 2>&1; echo exit $?")
	}
	if said := leave("--force"); !strings.Contains(said, "exit 1") || !strings.Contains(said, "stop it first") {
		t.Errorf("it leaves while its agent works: %s", said)
	}
	for _, p := range processesOf(s.Dir("late")) {
		if rank(p) == 0 {
			_ = syscall.Kill(p.pid, syscall.SIGTERM) // it may have ended by itself
		}
	}
	eventually(t, 5*time.Second, "its agent has ended", func() error {
		return differs("agents", len(slices.DeleteFunc(processesOf(s.Dir("late")), func(p process) bool { return rank(p) != 0 })), 0)
	})
	if said := leave(""); !strings.Contains(said, "exit 1") || !strings.Contains(said, "verge drain worker/b/late") || len(instancesIn(s.Dir("late"))) != 1 {
		t.Errorf("it leaves with what is placed on it: %s", said)
	}
	if said := leave("--force"); !strings.Contains(said, "exit 0") || !strings.Contains(said, "has left cluster b") {
		t.Fatalf("it does not leave: %s", said)
	}
	if _, err := os.Stat(filepath.Join(s.Dir("late"), engineapi.IdentityDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has kept its identity: %v", err)
	}
	list, err := c.Workers.List(t.Context())
	if err != nil || slices.ContainsFunc(list, func(w rpc.WorkerView) bool { return w.Name == "late" }) {
		t.Errorf("its cluster has kept it: %v", err)
	}
	if said := leave(""); !strings.Contains(said, "exit 1") || !strings.Contains(said, "no worker of this folder has joined") {
		t.Errorf("it leaves again: %s", said)
	}
	eventually(t, 20*time.Second, "nothing is left of it after it has left", func() error {
		now := s.kernel("late")
		for what := range now {
			if !had[what] {
				return errors.New(what)
			}
		}
		return nil
	})
	if err := root.Applications.Delete(t.Context(), "tail"); err != nil {
		t.Fatal(err)
	}
}

// kernel is what a host's kernel has: devices, routes, rules, tables, and mounts below
// the worker's directory.
func (s *terrain) kernel(host string) map[string]bool {
	s.t.Helper()
	out := map[string]bool{}
	for what, script := range map[string]string{
		"device ": "ip -br link | cut -d@ -f1 | cut -d' ' -f1",
		"route ":  "(ip route show table all; ip -6 route show table all) | grep -v ^anycast", // these come with forwarding
		"rule ":   "ip rule; ip -6 rule",
		"table ":  "nft list tables",
		"mount ":  "grep " + s.Dir(host) + "/ /proc/self/mounts | cut -d' ' -f2 || true",
	} {
		for line := range strings.Lines(s.output(host, "sh", "-c", script)) {
			out[what+strings.TrimSpace(line)] = true
		}
	}
	return out
}
