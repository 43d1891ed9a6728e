package experiments

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/wire"
)

// site is a root and a cluster with workers, the links to which are varied.
type site struct {
	*lab.Lab
	workers []string
	client  *client.Client
}

// newSite makes one; links are 1 ms both ways.
func (e *env) newSite(ctx context.Context, workers int) (*site, error) {
	rtt := api.Duration(time.Millisecond)
	f := lab.File{
		Links: lab.Links{Default: lab.LinkSpec{RTT: &rtt}},
		Hosts: map[string]lab.Host{"root": {Role: lab.RoleRoot}, "edge": {Role: lab.RoleCluster}},
	}
	s := &site{}
	for i := range workers {
		name := fmt.Sprintf("w%02d", i+1)
		s.workers = append(s.workers, name)
		f.Hosts[name] = lab.Host{Role: lab.RoleWorker, Flags: []string{"--network", "loopback"}}
	}
	var err error
	if s.Lab, err = e.up(ctx, f); err != nil {
		return nil, err
	}
	if s.client, err = s.Client("root"); err != nil {
		return nil, errors.Join(err, s.Down())
	}
	return s, nil
}

// links sets those between the cluster and its workers.
func (s *site) links(rtt time.Duration, loss float64) error {
	r, l := api.Duration(rtt), lab.Share(loss)
	for _, w := range s.workers {
		if _, err := s.Set("edge", w, lab.LinkSpec{RTT: &r, Loss: &l}, false); err != nil {
			return err
		}
	}
	return nil
}

// pairs whose links a meter looks at.
func (s *site) pairs() (out [][2]string) {
	for _, w := range s.workers {
		out = append(out, [2]string{"edge", w})
	}
	return out
}

const deployed = "lab"

// deploy applies an application with so many instances, and waits until all are
// ready; false if that takes longer than patience. It returns what it took.
func (s *site) deploy(ctx context.Context, instances int, patience time.Duration) (took time.Duration, done bool, err error) {
	return s.deployAs(ctx, instances, "", patience)
}

// deployAs does so with another field of the service.
func (s *site) deployAs(ctx context.Context, instances int, field string, patience time.Duration) (took time.Duration, done bool, err error) {
	text := fmt.Sprintf("application: %s\nservices:\n  main:\n    command: [sleep, \"100000\"]\n    replicas: %d\n    stop: {signal: KILL}\n    %s\n", deployed, instances, field)
	begin := time.Now()
	if _, err := s.client.Applications.Apply(ctx, []byte(text), false); err != nil {
		return 0, false, fmt.Errorf("apply: %w", err)
	}
	done, err = poll(ctx, patience, func() (bool, error) {
		v, err := s.client.Applications.Get(ctx, deployed)
		return v.Holds, err
	})
	return time.Since(begin), done, err
}

// remove ends the application and waits until nothing of it is left.
func (s *site) remove(ctx context.Context, patience time.Duration) error {
	if err := s.client.Applications.Delete(ctx, deployed); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	gone, err := poll(ctx, patience, func() (bool, error) {
		_, err := s.client.Applications.Get(ctx, deployed)
		var p *wire.Problem
		if errors.As(err, &p) && p.Status == 404 {
			return true, nil
		}
		return false, err
	})
	if err == nil && !gone {
		err = fmt.Errorf("it is not gone after %v", patience)
	}
	return err
}

// poll asks until the answer is yes; false if patience ends before.
func poll(ctx context.Context, patience time.Duration, ask func() (bool, error)) (bool, error) {
	const every = 5 * time.Millisecond
	deadline := time.Now().Add(patience)
	for {
		yes, err := ask()
		if err != nil || yes {
			return yes, err
		}
		if time.Now().After(deadline) {
			return false, nil
		}
		if err := pause(ctx, every); err != nil {
			return false, err
		}
	}
}

// pause waits for d.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// use is what processes have used so far, and have now.
type use struct {
	cpu time.Duration
	pss float64 // MB
}

// used by the Verge processes of a host; without instances.
func (s *site) used(host string) (sum use, err error) {
	pids, err := s.Processes(host)
	if err != nil {
		return sum, err
	}
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d/", pid)
		if exe, err := os.Readlink(dir + "exe"); err != nil || exe != s.Program() {
			continue // an instance or a check of one, or it has ended
		}
		// The clock of a process knows also what threads used that have ended.
		var ts unix.Timespec
		const scheduled = 2
		if err := unix.ClockGettime(int32(^pid<<3|scheduled), &ts); err != nil {
			continue // it has ended
		}
		sum.cpu += time.Duration(ts.Nano())
		b, err := os.ReadFile(dir + "smaps_rollup")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
				if err != nil {
					return sum, fmt.Errorf("%ssmaps_rollup: %w", dir, err)
				}
				sum.pss += kb / 1024
			}
		}
	}
	return sum, nil
}
