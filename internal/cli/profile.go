package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// profileEvery is how often it is asked how far a run is; nobody may ask for
	// rpc.ProfileIdle before it ends.
	profileEvery = time.Second
	// profileTimeout is how long nobody may answer before it is given up.
	profileTimeout = rpc.ProfileIdle - 2*time.Second
	// profileTells is the interval of progress messages.
	profileTells = 10 * time.Second
)

// profiling are the options of a run.
type profiling struct {
	load         rpc.ProfileLoad
	span         time.Duration
	body         string
	dryRun       bool
	show, forget bool
	mode         string
}

func (a *app) profileCommand() *cobra.Command {
	var p profiling
	cmd := &cobra.Command{
		Use: "profile SERVICE", Short: "Measure the capacity of each worker for a service", Args: oneArg("SERVICE"),
		Long: `Measure how many requests each worker answers for a service: each worker keeps its own
instances busy for --for. The result is stored, and the policies weighted and billiard
then share by it instead of by processors.

These are real requests, with all their effects: GET / by default. Each instance gets as
many at a time as it may work on, so other requests wait longer meanwhile. Workers
behind one address are measured one after the other, all others at the same time. With
Ctrl-C, when this command is cut off, or when more than half of the requests fail, the
profile ends and nothing is stored.

A grpc port gets unary calls: --path is the method, as /package.Service/Method, and
--body is the encoded message without its five-byte prefix; by default it is empty.`,
		Example: "  verge profile shop.web\n  verge profile shop.web --path /search?q=shoes --for 20s --dry-run\n" +
			"  verge profile shop.web --show",
		RunE: func(cmd *cobra.Command, args []string) error {
			app, service, err := routedService(args[0])
			if err != nil {
				return err
			}
			if err := p.check(cmd, a.in); err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error { return a.profile(cmd.Context(), c, app, service, p) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.load.Port, "port", "", "the port, by name (default: the first whose protocol is http or grpc)")
	f.StringVar(&p.load.Path, "path", "/", "the path, with its query")
	f.StringVar(&p.load.Method, "method", "", "the method (default: GET, or POST with --body)")
	f.StringVar(&p.body, "body", "", "a file to send as the body, - for standard input")
	f.StringVar(&p.load.Type, "type", "", "the content type of the body")
	f.DurationVar(&p.span, "for", time.Minute, "how long each worker is kept busy, 1s to 10m")
	f.IntVar(&p.load.Concurrency, "concurrency", 0,
		"requests that each instance has at a time (default: as many as it may work on)")
	f.BoolVar(&p.load.OneByOne, "one-by-one", false, "measure the workers of a cluster one after the other")
	f.BoolVar(&p.dryRun, "dry-run", false, "measure, and store nothing")
	f.BoolVar(&p.show, "show", false, "show what is stored, and measure nothing")
	f.BoolVar(&p.forget, "forget", false, "delete what is stored: weights are by processors again")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "show", "forget")
	outputFlag(cmd, &p.mode, "table", "json", "yaml")
	// It fails only where the flag above is missing.
	_ = cmd.MarkFlagFilename("body")
	return cmd
}

// check the options, and read the body.
func (p *profiling) check(cmd *cobra.Command, stdin io.Reader) error {
	switch {
	case p.span < time.Second || p.span > rpc.MaxProfileFor:
		return usageError(cmd, "--for is 1s to %s", rpc.MaxProfileFor)
	case p.load.Concurrency < 0 || p.load.Concurrency > rpc.MaxProfileConcurrency:
		return usageError(cmd, "--concurrency is 1 to %d", rpc.MaxProfileConcurrency)
	case !strings.HasPrefix(p.load.Path, "/"):
		return usageError(cmd, "--path begins with /")
	}
	p.load.For = api.Duration(p.span)
	if p.body != "" {
		in := stdin
		if p.body != "-" {
			f, err := os.Open(p.body)
			if err != nil {
				return err
			}
			defer f.Close() //nolint:errcheck // it was only read
			in = f
		}
		b, err := atomicfile.ReadAllBounded(in, rpc.MaxProfileBody)
		if err != nil {
			return fmt.Errorf("the body in %s, of which %d bytes may be sent: %w", p.body, rpc.MaxProfileBody, err)
		}
		p.load.Body = b
		if p.load.Method == "" {
			p.load.Method = http.MethodPost
		}
	}
	p.load.Method = strings.ToUpper(p.load.Method)
	return nil
}

func (a *app) profile(ctx context.Context, c *client.Client, app, service string, p profiling) error {
	name := app + "." + service
	switch {
	case p.forget:
		if err := c.Profiles.Forget(ctx, app, service); err != nil {
			return err
		}
		a.notef("the profile of %s is deleted; weights are by processors", name)
		return nil
	case p.show:
		r, err := c.Profiles.Get(ctx, app, service)
		if err != nil {
			return err
		}
		if len(r.Nodes) == 0 {
			a.notef("%s has no profile; its weights are by processors. To measure it: verge profile %s", name, name)
		}
		return a.printProfile(p.mode, r)
	}
	p.load.Key = wire.NewID()
	r, err := c.Profiles.Start(ctx, app, service, p.load)
	if err != nil {
		return err
	}
	a.notef("%s on %s is kept busy for %s; Ctrl-C ends it", name, wire.Count(len(r.Nodes), "worker"),
		r.Whole.Std().Round(time.Second))
	if r, err = a.followProfile(ctx, c, r, p.load.Key); err != nil || r.State == rpc.ProfileFailed || p.dryRun {
		// It is over, or ends; if the server is unreachable, the session ends by itself.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = c.Profiles.End(end, app, service, p.load.Key)
	}
	switch {
	case ctx.Err() != nil:
		return &userError{what: "it was interrupted", why: "nothing was stored", next: "verge profile " + name}
	case err != nil:
		return err
	case r.State == rpc.ProfileFailed:
		if err := a.printProfile(p.mode, r); err != nil {
			return err
		}
		return &userError{what: "the profile failed, nothing was stored", why: clean(r.Why),
			next: "choose a --path that the service answers; see verge logs " + name}
	case p.dryRun:
		a.notef("nothing was stored")
		return a.printProfile(p.mode, r)
	}
	if r, err = c.Profiles.Keep(ctx, app, service, p.load.Key); err != nil {
		return err
	}
	a.notef("stored; the policies weighted and billiard now use it")
	return a.printProfile(p.mode, r)
}

// followProfile asks how far a run is until it is over.
func (a *app) followProfile(ctx context.Context, c *client.Client, r rpc.ProfileReport, run string) (rpc.ProfileReport,
	error) {
	tick := time.NewTicker(profileEvery)
	defer tick.Stop()
	heard, told := time.Now(), time.Now()
	for r.State == rpc.ProfileRuns {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return r, ctx.Err()
		}
		next, err := c.Profiles.Look(ctx, r.App, r.Service, run)
		switch {
		case err == nil:
			r, heard = next, time.Now()
		case !passing(err), time.Since(heard) > profileTimeout:
			return r, err
		}
		if r.State == rpc.ProfileRuns && time.Since(told) >= profileTells {
			told = time.Now()
			n := 0
			for _, w := range r.Nodes {
				n += w.Requests
			}
			a.notef("%s of %s, %s so far", r.Took.Std().Round(time.Second), r.Whole.Std().Round(time.Second),
				wire.Count(n, "request"))
		}
	}
	if r.State == "" {
		return r, errors.New("the profile ended without a result")
	}
	return r, nil
}

func (a *app) printProfile(mode string, r rpc.ProfileReport) error {
	if mode != "table" {
		return a.encode(mode, r)
	}
	return profileColumns(a).print(a, mode, r.Nodes, false)
}

func profileColumns(a *app) listing[rpc.ProfileNode] {
	type view = rpc.ProfileNode
	took := func(d api.Duration) cell {
		if d <= 0 {
			return text("")
		}
		return text(milliseconds(d.Std()))
	}
	return listing[view]{kind: "worker", name: func(v view) string { return v.Cluster + "/" + v.Worker },
		columns: []column[view]{
			{name: "worker", cell: func(v view) cell { return text(v.Cluster + "/" + v.Worker) }},
			{name: "instances", cell: func(v view) cell { return textf("%d", v.Instances) }},
			{name: "req/s", cell: func(v view) cell {
				if v.Rate <= 0 {
					return text("")
				}
				return textf("%.4g", v.Rate)
			}},
			{name: "mean", cell: func(v view) cell { return took(v.Mean) }},
			{name: "p50", cell: func(v view) cell { return took(v.P50) }},
			{name: "p99", cell: func(v view) cell { return took(v.P99) }},
			{name: "errors", cell: func(v view) cell { return textf("%d", v.Errors) }},
			{name: "weight", cell: func(v view) cell { return textf("%.1f", v.Weight) }},
			{name: "from", cell: func(v view) cell { return text(v.From) }},
			{name: "measured", cell: func(v view) cell {
				if v.At.IsZero() {
					return text("")
				}
				return text(a.since(v.At) + " ago")
			}},
			{name: "message", cell: func(v view) cell {
				if v.Problem == "" && v.Old {
					return problem("of an older program: profile it again")
				}
				return problem(clean(v.Problem))
			}},
		}}
}
