package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
)

// readyPatience is how long a tier may take to be ready; links may be bad.
const readyPatience = 2 * time.Minute

// clients of the orchestrators, by host.
type clients struct {
	mu   sync.Mutex
	open map[string]*client.Client
}

func (c *clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.open {
		x.Close()
	}
	c.open = nil
}

// Client of the orchestrator on a host, at the host itself: no link is between.
func (l *Lab) Client(host string) (*client.Client, error) {
	l.clients.mu.Lock()
	defer l.clients.mu.Unlock()
	if c := l.clients.open[host]; c != nil {
		return c, nil
	}
	e, err := client.ReadContext(filepath.Join(l.Dir(host), "context.yaml"))
	if err != nil {
		return nil, err
	}
	c, err := client.New(e, client.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		return l.Dial(ctx, host, network, addr)
	}))
	if err != nil {
		return nil, err
	}
	if l.clients.open == nil {
		l.clients.open = map[string]*client.Client{}
	}
	l.clients.open[host] = c
	return c, nil
}

// startRoles starts root, clusters and workers, each tier when the one above is
// ready, and waits for the last.
func (l *Lab) startRoles(ctx context.Context) error {
	roots := l.file.with(RoleRoot)
	if len(roots) == 0 {
		return nil
	}
	root := roots[0]
	if err := l.startRole(root, ""); err != nil {
		return err
	}
	if err := l.answers(ctx, root); err != nil {
		return err
	}
	l.say("root %s answers at %s", root, l.Address(root))
	if err := each(l.file.with(RoleCluster), func(name string) error {
		return l.join(ctx, name, root, apiv1.TokenRequest{Kind: "cluster", Cluster: name})
	}); err != nil {
		return err
	}
	if err := each(l.file.with(RoleCluster), func(name string) error { return l.answers(ctx, name) }); err != nil {
		return err
	}
	return l.startWorkers(ctx)
}

func (l *Lab) startWorkers(ctx context.Context) error {
	workers := slices.DeleteFunc(l.file.with(RoleWorker), func(name string) bool { return l.file.Hosts[name].Later })
	want := map[string]int{}
	err := each(workers, func(name string) error { return l.Join(ctx, name) })
	if err != nil {
		return err
	}
	for _, name := range workers {
		c, err := l.file.clusterOf(name)
		if err != nil {
			return err
		}
		want[c]++
	}
	for c, n := range want {
		if err := l.workersReady(ctx, c, n); err != nil {
			return err
		}
		l.say("cluster %s has %d workers ready", c, n)
	}
	return nil
}

// Join starts a worker, which joins its cluster; it does not wait until it has.
func (l *Lab) Join(ctx context.Context, worker string) error {
	c, err := l.file.clusterOf(worker)
	if err != nil {
		return err
	}
	return l.join(ctx, worker, c, apiv1.TokenRequest{Kind: "worker"})
}

// workersReady waits until a cluster has so many.
func (l *Lab) workersReady(ctx context.Context, cluster string, n int) error {
	return until(ctx, readyPatience, "the workers of "+cluster, func() error {
		c, err := l.Client(cluster)
		if err != nil {
			return err
		}
		list, err := c.Workers.List(ctx)
		ready := 0
		for _, w := range list {
			if w.Status == "ready" {
				ready++
			}
		}
		if err == nil && ready < n {
			err = fmt.Errorf("%d of %d are ready", ready, n)
		}
		return err
	})
}

// each calls f for all at the same time.
func each(names []string, f func(string) error) error {
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { errs[i] = f(name) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// join starts a host with a token of the tier above.
func (l *Lab) join(ctx context.Context, host, above string, r apiv1.TokenRequest) error {
	c, err := l.Client(above)
	if err != nil {
		return err
	}
	reply, err := c.Tokens.Create(ctx, r)
	if err != nil {
		return fmt.Errorf("token for %s: %w", host, err)
	}
	return l.startRole(host, reply.Token)
}

// startRole starts the process of a host; without a token it goes on as what it
// was before.
func (l *Lab) startRole(host, token string) error {
	h := l.file.Hosts[host]
	args := []string{h.Role, "--data-dir", l.Dir(host)}
	if token != "" {
		file := filepath.Join(l.dir, host+".token")
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			return err
		}
		args = append(args, "--token-file", file)
	}
	addr := l.Address(host).String()
	switch {
	case h.Role == RoleWorker && h.NAT != "":
		args = append(args, "--name", host, "--advertise", "none")
	case h.Role == RoleWorker:
		args = append(args, "--name", host, "--advertise", addr)
	case h.Role == RoleCluster:
		args = append(args, "--name", host, "--advertise", addr, "--share-details")
	default:
		args = append(args, "--advertise", addr)
	}
	cmd := exec.Command(l.verge, append(args, h.Flags...)...)
	// Instances find the programs that lie beside verge.
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(l.verge)+":"+os.Getenv("PATH"))
	if _, err := l.start(host, cmd); err != nil {
		return fmt.Errorf("start the %s %s: %w", h.Role, host, err)
	}
	return nil
}

// answers waits until the interface of an orchestrator works.
func (l *Lab) answers(ctx context.Context, host string) error {
	err := until(ctx, readyPatience, l.file.Hosts[host].Role+" "+host, func() error {
		if pids, err := l.Processes(host); err == nil && len(pids) == 0 {
			return final{errors.New("it ended")}
		}
		c, err := l.Client(host)
		if err != nil {
			return err
		}
		_, err = c.System.Status(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, indent(tail(l.Log(host))))
	}
	return nil
}

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }
