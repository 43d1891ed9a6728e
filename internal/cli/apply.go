package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

type applyFlags struct {
	mode      string
	namespace string
	noWait    bool
	dryRun    bool
	timeout   time.Duration
}

// defaultTimeout of what waits.
const defaultTimeout = 2 * time.Minute

func (a *app) applyCommand() *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use:   "apply FILE... | -",
		Short: "Apply descriptors and wait until ready",
		Long: `Apply descriptors and wait until ready.

The descriptors are checked here, then sent; the server accepts them when they are
on disk. Each step of their instances is printed as it happens. Several descriptors,
in several files or in one separated by "---", are all checked here and at the
server before the first is applied. verge plan shows what an apply would do.

The wait ends early if the apply fails: a rollout has stopped, or two workers, or
all that could run a program, have given it up.

Exit code 0: ready; 1: an error, nothing was changed; 2: accepted but not ready
yet or failed, or with --dry-run: it would not be fully placed.`,
		Example: "  verge apply guestbook.yaml\n  verge apply -n shop web.yaml db.yaml\n" +
			"  sed s/v1/v2/ app.yaml | verge apply -",
		Args: filesArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.timeout <= 0 {
				return usageError(cmd, "--timeout must be more than 0")
			}
			list, err := a.readDescriptors(args, f.namespace)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			if f.dryRun {
				return a.plan(cmd.Context(), c, list, f.mode, true)
			}
			return a.apply(cmd.Context(), c, list, f)
		},
	}
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "return once it is accepted")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what it would do, as verge plan does, and change nothing")
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultTimeout, "wait at most this long")
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", namespaceHelp)
	a.localFlag(cmd)
	outputFlag(cmd, &f.mode, "table", "json", "yaml", "name")
	return cmd
}

const namespaceHelp = "namespace of descriptors that name none (default: that of the context, else default)"

// applyOutput is the result in JSON.
type applyOutput struct {
	apiv1.ApplyResult
	DryRun bool `json:"dry_run,omitempty"`
	Holds  bool `json:"holds"`
	// Restarts of instances that ran before.
	Restarts    uint64         `json:"restarts"`
	TookSeconds float64        `json:"took_seconds,omitempty"`
	Application *apiv1.AppView `json:"application,omitempty"`
	Plan        *apiv1.Plan    `json:"plan,omitempty"`
}

// applying is an apply that is under way.
type applying struct {
	out   applyOutput
	steps *progress
	runs  map[wire.InstanceID]int // of each instance, when it began
	start time.Time
}

func (a *app) apply(ctx context.Context, c *client.Client, list []descriptorFile, f applyFlags) error {
	if len(list) > 1 {
		for _, d := range list {
			if _, err := c.Applications.Apply(ctx, d.source, true); err != nil {
				return fmt.Errorf("%s: nothing was applied: %w", d.name, err)
			}
		}
	}
	var all []*applying
	for n, d := range list {
		w, err := a.send(ctx, c, d, f)
		if err != nil && n > 0 {
			return fmt.Errorf("%s: %w\n  %d of %d were applied before it", d.name, err, n, len(list))
		}
		if err != nil {
			return err
		}
		all = append(all, w)
	}
	var waitErr error
	if !f.noWait {
		for _, w := range all {
			if err := a.follow(ctx, c, w, f); err != nil && waitErr == nil {
				waitErr = err
			}
		}
	}
	if err := a.applied(f.mode, all); err != nil {
		return err
	}
	return waitErr
}

// send has one descriptor accepted.
func (a *app) send(ctx context.Context, c *client.Client, d descriptorFile, f applyFlags) (*applying, error) {
	w := &applying{steps: newProgress(a), runs: map[wire.InstanceID]int{}}
	// What is already there is not news.
	before, err := c.Instances.List(ctx, d.spec.Application, "")
	if err != nil && !notFound(err) {
		return nil, err
	}
	w.steps.skip(before)
	for _, i := range before {
		w.runs[i.ID] = i.Again()
	}
	w.start = a.opts.Now()
	if w.out.ApplyResult, err = c.Applications.Apply(ctx, d.source, false); err != nil {
		return nil, err
	}
	a.warn(w.out.Warnings, d.warnings)
	if f.mode != "table" {
		return w, nil
	}
	line := fmt.Sprintf("application/%s %s, revision %s", w.out.Name, w.out.Change, revision(w.out.Revision))
	if f.noWait {
		line += ": " + changesOf(w.out.Changes)
	}
	return w, a.printf("%s", line)
}

// warn prints what a server has to say about a descriptor.
func (a *app) warn(said []string, known []descriptor.Warning) {
	for _, w := range said {
		// The same check has run here; a newer server may know more.
		if !slices.ContainsFunc(known, func(k descriptor.Warning) bool { return strings.HasSuffix(w, k.Message) }) {
			a.notef("%s %s", a.paint(a.err, yellow, "warning:"), clean(w))
		}
	}
}

// follow waits until what was applied holds, and says what was done.
func (a *app) follow(ctx context.Context, c *client.Client, w *applying, f applyFlags) error {
	view, waitErr := a.await(ctx, c, w.out.ApplyResult, f.timeout, w.steps)
	w.out.TookSeconds = a.opts.Now().Sub(w.start).Round(time.Millisecond).Seconds()
	w.out.Application, w.out.Holds = view, waitErr == nil
	if list, err := c.Instances.List(ctx, w.out.Name, ""); err == nil {
		for _, i := range list {
			w.out.Restarts += uint64(max(0, i.Again()-w.runs[i.ID])) //nolint:gosec // not negative
		}
	}
	if f.mode != "table" || waitErr != nil {
		return waitErr
	}
	did := wire.Counters{Restarts: w.out.Restarts,
		Changes: uint64(max(0, w.out.Changes))} //nolint:gosec // not negative
	if err := a.printf("application/%s ready: %s after %s; %s", w.out.Name, readyWords(view.Services),
		took(a.opts.Now().Sub(w.start)), did); err != nil {
		return err
	}
	a.gatewayHint(ctx, c, view)
	return nil
}

// changesOf is "3 changes applied".
func changesOf(n int) string { return count(n, "change") + " applied" }

func (a *app) applied(mode string, all []*applying) error {
	outs := make([]applyOutput, len(all))
	for n, w := range all {
		outs[n] = w.out
	}
	switch mode {
	case "json", "yaml":
		return a.encodeEach(mode, outs)
	case "name":
		for _, o := range outs {
			if err := a.printf("application/%s", o.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// encodeEach writes the only one of a list by itself, else all as items.
func (a *app) encodeEach(mode string, list []applyOutput) error {
	if len(list) == 1 {
		return a.encode(mode, list[0])
	}
	return a.encode(mode, struct {
		Items []applyOutput `json:"items"`
	}{list})
}

// await polls until the application holds at the applied revision. A server
// that is away for a moment does not end it: what it accepted is durable.
func (a *app) await(ctx context.Context, c *client.Client, r apiv1.ApplyResult, timeout time.Duration,
	steps *progress) (*apiv1.AppView, error) {
	var last *apiv1.AppView
	var back *apiv1.AppRevision
	err := a.poll(ctx, timeout, func() (bool, error) {
		list, err := c.Instances.List(ctx, r.Name, "")
		if err != nil && !notFound(err) {
			return false, err
		}
		steps.show(list)
		v, err := c.Applications.Get(ctx, r.Name)
		if err != nil {
			return false, err
		}
		last = &v
		if v.Revision > r.Revision {
			if back = takenBack(ctx, c, r); back != nil {
				return false, errTakenBack
			}
		}
		if v.Revision >= r.Revision && stopped(&v) {
			return false, errStopped
		}
		if v.Revision >= r.Revision && !v.Holds && failedParts(&v) != "" {
			return false, errFailed
		}
		holds := v.Holds && v.Revision >= r.Revision && !rolling(&v)
		if !holds || !steps.calm() {
			return false, nil
		}
		// What happened between the two questions.
		if list, err = c.Instances.List(ctx, r.Name, ""); err == nil {
			steps.show(list)
		}
		return true, nil
	})
	var why string
	switch {
	case err == nil:
		return last, nil
	case errors.Is(err, errTakenBack):
		return last, &incompleteError{userError{
			what: fmt.Sprintf("application/%s was accepted, and was rolled back: it is revision %s now", r.Name,
				revision(back.Revision)),
			why: back.Why,
			next: "apply another one; the revision that was tried is kept: verge rollout history " + r.Name +
				" --revision " + revision(r.Revision),
		}}
	case errors.Is(err, errStopped):
		return last, &incompleteError{userError{
			what: fmt.Sprintf("application/%s was accepted, but its rollout has stopped", r.Name),
			why:  strings.TrimPrefix(missingParts(last), "\n  "),
			next: "verge rollout status " + r.Name + "; then apply another one, or: verge rollout undo " + r.Name,
		}}
	case errors.Is(err, errFailed):
		return last, &incompleteError{userError{
			what: fmt.Sprintf("application/%s was accepted, but has failed", r.Name),
			why:  failedParts(last),
			next: "apply another one; this one is retried meanwhile: verge describe application/" + r.Name,
		}}
	case errors.Is(err, errTimeout):
		why = timedOut(timeout, last, steps.calm())
	case errors.Is(err, context.Canceled):
		why = "the wait was interrupted"
	default:
		return last, err
	}
	return last, &incompleteError{userError{
		what: fmt.Sprintf("application/%s was accepted but is not ready", r.Name),
		why:  why + missingParts(last),
		next: "it continues without this command; see: verge describe application/" + r.Name,
	}}
}

// timedOut says why a wait has run out. Where all is ready it waited for calm.
func timedOut(timeout time.Duration, v *apiv1.AppView, calm bool) string {
	why := "after " + api.Duration(timeout).String()
	if v != nil && v.Holds && !calm {
		why += ": all of it is ready for moments, and instances are restarted again and again"
	}
	return why
}

// errFailed ends a wait for what has failed.
var errFailed = errors.New("it has failed")

// failedParts says which services of an application have failed, and why; "" for none.
func failedParts(v *apiv1.AppView) string {
	var out []string
	for _, s := range v.Services {
		if s.Failed != "" {
			out = append(out, "service "+s.Name+": "+s.Failed)
		}
	}
	return strings.Join(out, "\n  ")
}

// errTakenBack ends a wait for what the root has undone.
var errTakenBack = errors.New("it was rolled back")

// takenBack is the revision by which the root has rolled back a failed rollout, as its descriptor
// asks; nil if it has not, or if that cannot be found out.
func takenBack(ctx context.Context, c *client.Client, r apiv1.ApplyResult) *apiv1.AppRevision {
	list, err := c.Rollouts.Revisions(ctx, r.Name)
	if err != nil {
		return nil // at a cluster, or away for a moment: it is asked again
	}
	for n := range list {
		if v := &list[n]; v.Revision > r.Revision && v.By == wire.ByRollback {
			return v
		}
	}
	return nil
}

// missingParts says what an application lacks, one line for each service.
func missingParts(v *apiv1.AppView) string {
	if v == nil {
		return "; no news of it"
	}
	var b strings.Builder
	for _, s := range v.Services {
		switch {
		case s.Message != "":
			fmt.Fprintf(&b, "\n  service %s: %s", s.Name, s.Message)
		case s.Job == nil && s.Ready < s.Wanted:
			fmt.Fprintf(&b, "\n  service %s: %d of %d ready", s.Name, s.Ready, s.Wanted)
		}
	}
	if b.Len() == 0 && v.Message != "" {
		b.WriteString(": " + v.Message)
	}
	return b.String()
}

// gatewayHint says how to reach an application that has an ingress.
func (a *app) gatewayHint(ctx context.Context, c *client.Client, v *apiv1.AppView) {
	var hosts []string
	for _, s := range v.Services {
		if s.Ready+s.Asleep > 0 {
			hosts = append(hosts, s.Hosts...)
		}
	}
	if len(hosts) == 0 {
		return
	}
	gateway := "GATEWAY"
	list, err := c.Workers.List(ctx)
	if err == nil {
		if !slices.ContainsFunc(list, func(w rpc.WorkerView) bool { return w.Gateway != "" }) {
			a.notef("  no worker is a gateway for users: start one with --gateway :8480")
			return
		}
		for _, w := range list {
			// A worker says this of itself, and the line invites to be run.
			if at := gatewayAt(&w); isAddress(at) {
				gateway = at
				break
			}
		}
	}
	// Where the workers cannot be seen any gateway's address will do.
	for _, h := range hosts {
		a.notef("  try: curl -H 'Host: %s' http://%s/", clean(h), gateway)
	}
}

// gatewayAt is where a worker's gateway is reached. One that listens on all addresses of its
// machine is reached at the address that its worker has for others.
func gatewayAt(w *rpc.WorkerView) string {
	host, port, err := net.SplitHostPort(w.Gateway)
	if err != nil {
		return w.Gateway
	}
	if ip, err := netip.ParseAddr(host); host != "" && (err != nil || !ip.IsUnspecified()) {
		return w.Gateway
	}
	host, _, err = net.SplitHostPort(w.Address)
	if ip, perr := netip.ParseAddr(host); err != nil || host == "" || perr == nil && ip.IsUnspecified() {
		host = "GATEWAY" // it is for its operator to know
	}
	return net.JoinHostPort(host, port)
}

// isAddress is true for a host:port without anything that a shell or a terminal
// would understand.
func isAddress(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-[]"
	_, _, err := net.SplitHostPort(s)
	return err == nil && strings.Trim(s, letters) == ""
}
