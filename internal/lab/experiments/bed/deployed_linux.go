package bed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
)

// A scene can also be played on a site: by the processes of Verge, which place instances of a program and
// tell routers of them. Its pods share processors (Scene.Processors), and their service says nothing of how
// many requests an instance takes at once.

const (
	// gatewayPort is where each worker of such a site takes requests from clients.
	gatewayPort = "8480"
	// deployPatience is how long instances may take to be ready, and gateways to know them.
	deployPatience = time.Minute
)

// NewGateways makes a site whose workers are gateways.
func NewGateways(ctx context.Context, e *experiment.Env, workers int) (*Site, error) {
	return NewSite(ctx, e, workers, "--gateway", ":"+gatewayPort, "--cpus", "16", "--memory", "2Gi", "--reserve", "0%")
}

// Answers are those to the requests of a scene, by one policy.
type Answers struct {
	// To real requests, and to the same in virtual time; in the order in which they were due.
	Real, Virtual []Answer
}

// Play deploys a scene once for each policy, in an application, and plays all of them at the same time:
// what else the machine does hits all alike. Requests come in at the gateways of the workers that the
// scene's loads name. It sets the scene's pods, of which only the number and the first one's service count,
// to where the instances are. It returns also how exact the links were.
func (s *Site) Play(ctx context.Context, scene Scene, policies []string) (by map[string]Answers, acc lab.Accuracy, err error) {
	if err := s.deployScene(ctx, &scene, policies); err != nil {
		return nil, acc, err
	}
	clients := map[string]*http.Client{}
	for _, host := range s.Workers {
		t := &http.Transport{MaxIdleConnsPerHost: 4096, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return s.Dial(ctx, host, network, addr)
		}}
		defer t.CloseIdleConnections()
		clients[host] = &http.Client{Timeout: time.Minute, Transport: t}
	}
	plays, virtual := make([]*play, len(policies)), make([]Scene, len(policies))
	for i, policy := range policies {
		virtual[i] = scene.named(policy)
		if virtual[i].Pods, err = s.placed(ctx, policy, scene.Pods); err != nil {
			return nil, acc, err
		}
		p := newPlay(&virtual[i], policy)
		p.clients, p.to = clients, policy+".localhost"
		for _, l := range scene.Loads {
			p.urls[l.Host] = "http://" + net.JoinHostPort(s.Address(l.Host).String(), gatewayPort) + "/"
		}
		plays[i] = p
	}
	meter, err := s.Measure(s.among())
	if err != nil {
		return nil, acc, err
	}
	err = playTogether(ctx, plays)
	acc, merr := meter.Stop()
	if err := errors.Join(err, merr); err != nil {
		return nil, acc, err
	}
	by = map[string]Answers{}
	for i, policy := range policies {
		seen, err := virtual[i].Virtually(policy)
		if err != nil {
			return nil, acc, err
		}
		by[policy] = Answers{inOrder(plays[i].answers), seen}
	}
	return by, acc, nil
}

// playTogether connects and plays.
func playTogether(ctx context.Context, plays []*play) error {
	defer hasten()()
	errs := make([]error, len(plays))
	var all sync.WaitGroup
	for _, step := range []func(*play) error{
		func(p *play) error { return p.served(ctx) },
		func(p *play) error { return p.connect(ctx) },
		func(p *play) error { _, err := p.run(ctx); return err },
	} {
		for i, p := range plays {
			all.Go(func() { errs[i] = step(p) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// served waits until the routers at all loads know the instances.
func (p *play) served(ctx context.Context) error {
	for _, l := range p.s.Loads {
		var last error
		yes, err := experiment.Poll(ctx, deployPatience, func() (bool, error) {
			_, last = p.send(ctx, l.Host, 1)
			return last == nil, ctx.Err()
		})
		if err == nil && !yes {
			err = fmt.Errorf("the gateway at %s does not serve %s: %w", l.Host, p.name, last)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deployScene applies the application and waits until all instances are ready.
func (s *Site) deployScene(ctx context.Context, scene *Scene, policies []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "application: %s\nservices:\n", Deployed)
	for _, policy := range policies {
		fmt.Fprintf(&b, `  %[1]s:
    command: [%[2]q, shared]
    env: {%[3]s: %[4]q, %[5]s: %[6]q}
    replicas: %[7]d
    resources: {cpu: 1, memory: 64Mi}
    policy: %[1]s
    replace_after: 1h
    ports: [{name: http, ingress: {host: %[1]s.localhost}}]
    stop: {signal: KILL}
`, policy, s.Tool(), sharedService, scene.Pods[0].Service, sharedProcessors, fmt.Sprint(scene.Processors), len(scene.Pods))
	}
	if _, err := s.API.Applications.Apply(ctx, []byte(b.String()), false); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	ready, err := experiment.Poll(ctx, deployPatience, func() (bool, error) {
		v, err := s.API.Applications.Get(ctx, Deployed)
		return v.Holds, err
	})
	if err == nil && !ready {
		err = fmt.Errorf("the instances are not ready after %v", deployPatience)
	}
	return err
}

// placed are the pods of a scene where the instances of a service are.
func (s *Site) placed(ctx context.Context, service string, pods []ScenePod) (out []ScenePod, err error) {
	list, err := s.API.Instances.List(ctx, Deployed, service)
	if err != nil {
		return nil, fmt.Errorf("instances of %s: %w", service, err)
	}
	for _, v := range list {
		out = append(out, ScenePod{v.Worker, pods[0].Service})
	}
	if len(out) != len(pods) {
		return nil, fmt.Errorf("%s has %d instances, not %d", service, len(out), len(pods))
	}
	return out, nil
}

// among are the links between workers.
func (s *Site) among() (out [][2]string) {
	for i, a := range s.Workers {
		for _, b := range s.Workers[i+1:] {
			out = append(out, [2]string{a, b})
		}
	}
	return out
}
