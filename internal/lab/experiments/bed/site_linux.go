package bed

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
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/wire"
)

// Site is a root and a cluster with workers, the links to which are varied.
type Site struct {
	*lab.Lab
	Workers []string
	API     *client.Client
}

// NewSite makes one; links are 1 ms both ways. Workers get the flags.
func NewSite(ctx context.Context, e *experiment.Env, workers int, flags ...string) (*Site, error) {
	rtt := api.Duration(time.Millisecond)
	f := lab.File{
		Links: lab.Links{Default: lab.LinkSpec{RTT: &rtt}},
		Hosts: map[string]lab.Host{"root": {Role: lab.RoleRoot}, "edge": {Role: lab.RoleCluster}},
	}
	s := &Site{}
	for i := range workers {
		name := fmt.Sprintf("w%02d", i+1)
		s.Workers = append(s.Workers, name)
		f.Hosts[name] = lab.Host{Role: lab.RoleWorker, Flags: append([]string{"--network", "loopback"}, flags...)}
	}
	var err error
	if s.Lab, err = e.Up(ctx, f); err != nil {
		return nil, err
	}
	if s.API, err = s.Client("root"); err != nil {
		return nil, errors.Join(err, s.Down())
	}
	return s, nil
}

// Links sets those between the cluster and its workers.
func (s *Site) Links(rtt time.Duration, loss float64) error {
	r, l := api.Duration(rtt), lab.Share(loss)
	for _, w := range s.Workers {
		if _, err := s.Set("edge", w, lab.LinkSpec{RTT: &r, Loss: &l}, false); err != nil {
			return err
		}
	}
	return nil
}

// Pairs whose links a meter looks at.
func (s *Site) Pairs() (out [][2]string) {
	for _, w := range s.Workers {
		out = append(out, [2]string{"edge", w})
	}
	return out
}

// Deployed is the application of a site.
const Deployed = "lab"

// Deploy applies an application with so many instances, and waits until all are
// ready; false if that takes longer than timeout. It returns what it took.
func (s *Site) Deploy(ctx context.Context, instances int, timeout time.Duration) (took time.Duration, done bool, err error) {
	return s.DeployAs(ctx, instances, "", timeout)
}

// DeployAs does so with another field of the service.
func (s *Site) DeployAs(ctx context.Context, instances int, field string, timeout time.Duration) (took time.Duration, done bool, err error) {
	text := fmt.Sprintf("application: %s\nservices:\n  main:\n    command: [sleep, \"100000\"]\n    replicas: %d\n    stop: {signal: KILL}\n    %s\n", Deployed, instances, field)
	begin := time.Now()
	if _, err := s.API.Applications.Apply(ctx, []byte(text), false); err != nil {
		return 0, false, fmt.Errorf("apply: %w", err)
	}
	done, err = experiment.Poll(ctx, timeout, func() (bool, error) {
		v, err := s.API.Applications.Get(ctx, Deployed)
		return v.Holds, err
	})
	return time.Since(begin), done, err
}

// Remove ends the application and waits until nothing of it is left.
func (s *Site) Remove(ctx context.Context, timeout time.Duration) error {
	if err := s.API.Applications.Delete(ctx, Deployed); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	gone, err := experiment.Poll(ctx, timeout, func() (bool, error) {
		_, err := s.API.Applications.Get(ctx, Deployed)
		var p *wire.Problem
		if errors.As(err, &p) && p.Status == 404 {
			return true, nil
		}
		return false, err
	})
	if err == nil && !gone {
		err = fmt.Errorf("it is not gone after %v", timeout)
	}
	return err
}

// Use is what processes have used so far, and have now.
type Use struct {
	Cpu time.Duration
	Pss float64 // MB
	// Private is what no other process shares, in MB: dirty pages. Pss also changes with the
	// number of processes that run the same program, in any lab.
	Private float64
}

// Used by the Verge processes of a host; without instances.
func (s *Site) Used(host string) (sum Use, err error) {
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
		sum.Cpu += time.Duration(ts.Nano())
		b, err := os.ReadFile(dir + "smaps_rollup")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			name, rest, _ := strings.Cut(line, ":")
			into := map[string]*float64{"Pss": &sum.Pss, "Private_Dirty": &sum.Private}[name]
			if into == nil {
				continue
			}
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if err != nil {
				return sum, fmt.Errorf("%ssmaps_rollup: %w", dir, err)
			}
			*into += kb / 1024
		}
	}
	return sum, nil
}
