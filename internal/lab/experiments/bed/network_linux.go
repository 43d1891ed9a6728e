package bed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/wire"
)

// Experiments of the service network run instances that only sleep. What listens and
// sends in their networks is opened there by the experiment, so that little else than
// the network is measured.

// Lan is the round trip between workers of one place.
const Lan = time.Millisecond

// Network is a site whose workers are in the service network. Each has the label
// is=<its name>.
type Network struct{ *Site }

// InNetwork are the flags of a worker in the service network.
func InNetwork(name string) []string {
	return []string{"--network", "overlay", "--label", "is=" + name}
}

// NewNetwork makes one. More are hosts beside it.
func NewNetwork(ctx context.Context, e *experiment.Env, rtt time.Duration, workers []string, more ...string) (Network, error) {
	d := api.Duration(rtt)
	f := lab.File{
		Links: lab.Links{Default: lab.LinkSpec{RTT: &d}},
		Hosts: map[string]lab.Host{"root": {Role: lab.RoleRoot}, "edge": {Role: lab.RoleCluster}},
	}
	for _, w := range workers {
		f.Hosts[w] = lab.Host{Role: lab.RoleWorker, Flags: InNetwork(w)}
	}
	for _, h := range more {
		f.Hosts[h] = lab.Host{}
	}
	return NetworkOf(ctx, e, f, workers)
}

// NetworkOf makes one of a file whose workers have flags of InNetwork.
func NetworkOf(ctx context.Context, e *experiment.Env, f lab.File, workers []string) (n Network, err error) {
	n.Site = &Site{Workers: workers}
	if n.Lab, err = e.Up(ctx, f); err != nil {
		return n, err
	}
	if n.API, err = n.Client("root"); err != nil {
		return n, errors.Join(err, n.Down())
	}
	return n, nil
}

// Asleep is a service of a descriptor: so many instances that do nothing, at the
// workers with a label; more is what else is said of it.
func Asleep(name string, replicas int, at string, more ...string) string {
	s := fmt.Sprintf("  %s:\n    command: [sleep, \"100000\"]\n    replicas: %d\n    stop: {signal: KILL}\n    resources: {cpu: 1m, memory: 4Mi, disk: 1Mi}\n", name, replicas)
	if at != "" {
		s += "    affinity: {labels: {is: " + at + "}}\n"
	}
	for _, line := range more {
		s += "    " + line + "\n"
	}
	return s
}

// Listens is said of a service whose instances the experiment listens for: they count
// as ready without it.
const Listens = "ports: [{name: main, protocol: tcp}]\n    readiness: {exec: {command: [\"true\"]}, interval: 1h}"

// Apply applies an application and waits until all of it is ready.
func (n Network) Apply(ctx context.Context, services ...string) error {
	if _, err := n.API.Applications.Apply(ctx, []byte("application: "+Deployed+"\nservices:\n"+strings.Join(services, "")), false); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	var v apiv1.AppView
	holds, err := experiment.Poll(ctx, time.Minute, func() (_ bool, err error) {
		v, err = n.API.Applications.Get(ctx, Deployed)
		return v.Holds, err
	})
	if err == nil && !holds {
		err = fmt.Errorf("it is not ready after a minute: %+v", v)
	}
	return err
}

// Sleeper is an instance.
type Sleeper struct {
	ID wire.InstanceID
	// Worker on which it is.
	Worker string
	Addr   netip.Addr
	// in its network
	In Place
}

// Sleepers of a service, with their addresses.
func (n Network) Sleepers(ctx context.Context, service string) (out []Sleeper, err error) {
	got, err := experiment.Poll(ctx, time.Minute, func() (bool, error) {
		list, err := n.API.Instances.List(ctx, Deployed, service)
		out = nil
		for _, v := range list {
			s := Sleeper{ID: v.ID, Worker: v.Worker}
			for _, a := range v.Addrs {
				if a.Is4() {
					s.Addr = a
				}
			}
			s.In = func(f func() error) error { return n.Inside(s.Worker, s.ID, f) }
			if !s.Addr.IsValid() {
				return false, nil
			}
			out = append(out, s)
		}
		return len(out) > 0, err
	})
	if err == nil && !got {
		err = fmt.Errorf("the instances of %s have no addresses in the service network", service)
	}
	return out, err
}

// variable of an instance, which tells it where services are.
func (n Network) variable(s Sleeper, name string) (string, error) {
	pids, err := n.Processes(s.Worker)
	if err != nil {
		return "", err
	}
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			continue // it has ended
		}
		env := "\x00" + string(b)
		if !strings.Contains(env, "\x00VERGE_INSTANCE="+s.ID+"\x00") {
			continue
		}
		if _, after, ok := strings.Cut(env, "\x00"+name+"="); ok {
			value, _, _ := strings.Cut(after, "\x00")
			return value, nil
		}
	}
	return "", fmt.Errorf("%s has no variable %s", s.ID, name)
}

// Service returns the address of a service as an instance knows it.
func (n Network) Service(s Sleeper, service string) (netip.AddrPort, error) {
	v, err := n.variable(s, "VERGE_"+strings.ToUpper(service)+"_ADDR")
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.ParseAddrPort(v)
}
