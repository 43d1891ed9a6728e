package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

type applyFlags struct {
	mode    string
	noWait  bool
	dryRun  bool
	timeout time.Duration
}

// defaultTimeout of what waits.
const defaultTimeout = 2 * time.Minute

func (a *app) applyCommand() *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use:   "apply FILE|-",
		Short: "Make what a descriptor says so, and watch until it is",
		Long: `Make what a descriptor says so, and watch until it is.

The descriptor is checked here first, then sent, and durably stored when the
server has accepted it. Each step of its instances is printed as it happens.
Exit code 0: it holds; 1: an error, nothing was changed; 2: it was accepted but
does not hold yet.`,
		Example: "  verge apply guestbook.yaml\n  sed s/v1/v2/ app.yaml | verge apply -",
		Args:    oneArg("FILE or -"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.timeout <= 0 {
				return usageError(cmd, "--timeout must be more than 0")
			}
			return a.apply(cmd.Context(), args[0], f)
		},
	}
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "return when it is accepted")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "check here and at the server, change nothing")
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultTimeout, "wait at most this long")
	a.localFlag(cmd)
	outputFlag(cmd, &f.mode, "table", "json", "yaml", "name")
	return cmd
}

// applyOutput is the result in JSON.
type applyOutput struct {
	wire.ApplyResult
	DryRun      bool          `json:"dry_run,omitempty"`
	Holds       bool          `json:"holds"`
	TookSeconds float64       `json:"took_seconds,omitempty"`
	Application *wire.AppView `json:"application,omitempty"`
}

func (a *app) apply(ctx context.Context, file string, f applyFlags) error {
	source, spec, known, err := a.readDescriptor(file)
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	steps := newProgress(a)
	if !f.dryRun {
		// What is already there is not news.
		before, err := c.Instances(ctx, spec.Application, "")
		if err != nil && !notFound(err) {
			return err
		}
		steps.skip(before)
	}
	start := a.opts.Now()
	result, err := c.Apply(ctx, source, f.dryRun)
	if err != nil {
		return err
	}
	for _, w := range result.Warnings {
		// The same check has run here; a newer server may know more.
		if slices.ContainsFunc(known, func(k api.Warning) bool { return strings.HasSuffix(w, k.Message) }) {
			continue
		}
		a.notef("%s %s", a.paint(a.err, yellow, "warning:"), clean(w))
	}
	out := applyOutput{ApplyResult: result, DryRun: f.dryRun}
	human := f.mode == "table"
	if human {
		did := result.Change
		if f.dryRun {
			did = "would be " + did + " (dry run)"
		}
		if err := a.printf("application/%s %s, revision %s", result.Name, did, revision(result.Revision)); err != nil {
			return err
		}
	}
	if f.dryRun || f.noWait {
		return a.applied(f.mode, out)
	}
	view, waitErr := a.await(ctx, c, result, f.timeout, steps)
	out.TookSeconds = a.opts.Now().Sub(start).Round(time.Millisecond).Seconds()
	out.Application, out.Holds = view, waitErr == nil
	if human && waitErr == nil {
		if err := a.printf("application/%s holds: %s instances ready after %s", result.Name, readyOf(view.Services), took(a.opts.Now().Sub(start))); err != nil {
			return err
		}
		a.gatewayHint(ctx, c, view)
	}
	if err := a.applied(f.mode, out); err != nil {
		return err
	}
	return waitErr
}

func (a *app) applied(mode string, out applyOutput) error {
	switch mode {
	case "json", "yaml":
		return a.encode(mode, out)
	case "name":
		return a.printf("application/%s", out.Name)
	}
	return nil
}

// await polls until the application holds at the applied revision. A server
// that is away for a moment does not end it: what it accepted is durable.
func (a *app) await(ctx context.Context, c *rest.Client, r wire.ApplyResult, timeout time.Duration, steps *progress) (*wire.AppView, error) {
	var last *wire.AppView
	err := a.poll(ctx, timeout, func() (bool, error) {
		list, err := c.Instances(ctx, r.Name, "")
		if err != nil && !notFound(err) {
			return false, err
		}
		steps.show(list)
		v, err := c.Application(ctx, r.Name)
		if err != nil {
			return false, err
		}
		last = &v
		if !v.Holds || v.Revision < r.Revision {
			return false, nil
		}
		// What happened between the two questions.
		if list, err = c.Instances(ctx, r.Name, ""); err == nil {
			steps.show(list)
		}
		return true, nil
	})
	var why string
	switch {
	case err == nil:
		return last, nil
	case errors.Is(err, errTimeout):
		why = "after " + api.Duration(timeout).String()
	case errors.Is(err, context.Canceled):
		why = "the wait was interrupted"
	default:
		return last, err
	}
	return last, &incompleteError{userError{
		what: fmt.Sprintf("application/%s was accepted but does not hold", r.Name),
		why:  why + missingParts(last),
		next: "it goes on by itself; look with: verge describe application/" + r.Name,
	}}
}

// missingParts says what an application lacks, one line for each service.
func missingParts(v *wire.AppView) string {
	if v == nil {
		return "; nothing was heard of it"
	}
	var b strings.Builder
	for _, s := range v.Services {
		switch {
		case s.Message != "":
			fmt.Fprintf(&b, "\n  service %s: %s", s.Name, s.Message)
		case s.Ready < s.Wanted:
			fmt.Fprintf(&b, "\n  service %s: %d of %d ready", s.Name, s.Ready, s.Wanted)
		}
	}
	if b.Len() == 0 && v.Message != "" {
		b.WriteString(": " + v.Message)
	}
	return b.String()
}

// gatewayHint says how to reach an application that has an ingress.
func (a *app) gatewayHint(ctx context.Context, c *rest.Client, v *wire.AppView) {
	var hosts []string
	for _, s := range v.Services {
		if s.Ready > 0 {
			hosts = append(hosts, s.Hosts...)
		}
	}
	if len(hosts) == 0 {
		return
	}
	gateway := "GATEWAY"
	list, err := c.Workers(ctx)
	if err == nil {
		if !slices.ContainsFunc(list, func(w wire.WorkerView) bool { return w.Gateway != "" }) {
			a.notef("  no worker is a gateway for users' requests: start one with --gateway :8480")
			return
		}
		for _, w := range list {
			// A worker says this of itself, and the line invites to be run.
			if isAddress(w.Gateway) {
				gateway = w.Gateway
				break
			}
		}
	}
	// Where the workers cannot be seen any gateway's address will do.
	for _, h := range hosts {
		a.notef("  try: curl -H 'Host: %s' http://%s/", clean(h), gateway)
	}
}

// isAddress is true for a host:port without anything that a shell or a terminal
// would understand.
func isAddress(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-[]"
	_, _, err := net.SplitHostPort(s)
	return err == nil && strings.Trim(s, letters) == ""
}
