package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func (a *app) drainCommand() *cobra.Command {
	var f waitFlags
	reason := ""
	cmd := &cobra.Command{
		Use:   "drain worker/NAME | cluster/NAME",
		Short: "Cordon a worker or cluster and move its instances away",
		Long: `Cordon a worker or cluster and move its instances away.

Each instance first starts elsewhere, and ends here when the new one is ready and
gets the requests, one at a time of each service. An instance that cannot move (its
volume is here, there is no room) stays and is listed. The drain continues without
this command, also across restarts of orchestrators; cancel it with verge uncordon.
Drain a worker with a context of its cluster, or of the root, which passes the
command on if the cluster was started with --share-details. Drain a cluster with a
context of the root.

Exit code 0: nothing is left; 1: an error, nothing was changed; 2: it continues, or
something has to stay.`,
		Example: "  verge drain worker/w1 --reason 'a new disk' --timeout 10m\n  verge drain cluster/edge",
		Args:    oneOrTwoArgs("worker/NAME or cluster/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.outOfUse(cmd.Context(), args, func(ctx context.Context, c *client.Client, t target) error {
				return a.drain(ctx, c, t, reason, f)
			})
		},
	}
	f.add(cmd, "stored")
	cmd.Flags().StringVar(&reason, "reason", "", "the reason, shown to others")
	return cmd
}

func (t target) drain(ctx context.Context, c *client.Client) (rpc.DrainView, error) {
	if t.worker == "" {
		return c.Clusters.Drain(ctx, t.cluster)
	}
	return c.Workers.Drain(ctx, t.cluster, t.worker)
}

// errStays ends a poll when nothing that is left can move.
var errStays = errors.New("all that is left has to stay")

func (a *app) drain(ctx context.Context, c *client.Client, t target, reason string, f waitFlags) error {
	start := a.opts.Now()
	if _, err := t.cordon(ctx, c, rpc.CordonRequest{Reason: reason, Drain: true}); err != nil {
		return err
	}
	if err := a.printf("%s draining", t); err != nil {
		return err
	}
	if f.noWait {
		return nil
	}
	said, total := map[string]rpc.DrainItem{}, map[string]bool{}
	var last rpc.DrainView
	err := a.poll(ctx, f.timeout, func() (bool, error) {
		v, err := t.drain(ctx, c)
		if err != nil {
			return false, err
		}
		if v.Cordon == nil {
			return false, &userError{what: t.String() + " is no longer drained",
				why: "somebody has uncordoned it meanwhile", next: "see: verge get " + t.kind() + "s"}
		}
		last = v
		stays := a.drainSteps(v, said, total)
		if len(v.Left) > 0 && stays == len(v.Left) {
			return false, errStays
		}
		return len(v.Left) == 0, nil
	})
	var why string
	switch {
	case err == nil && len(total) == 0:
		return a.printf("%s drained: nothing ran there", t)
	case err == nil:
		return a.printf("%s drained: %s moved or ended after %s", t, instancesOf(len(total)),
			took(a.opts.Now().Sub(start)))
	case errors.Is(err, errStays):
		why = instancesOf(len(last.Left)) + " cannot move now"
	case errors.Is(err, errTimeout):
		why = instancesOf(len(last.Left)) + " left after " + api.Duration(f.timeout).String()
	case errors.Is(err, context.Canceled):
		why = "the wait was interrupted"
	default:
		return err
	}
	for _, i := range last.Left {
		why += fmt.Sprintf("\n  %s %s", i.Instance, i.State)
		if i.To != "" {
			why += " to " + i.To
		}
		if i.Why != "" {
			why += ": " + i.Why
		}
	}
	return &incompleteError{userError{what: t.String() + " is not empty", why: why,
		next: "it takes nothing new, and the drain continues until: verge uncordon " + t.String()}}
}

// drainSteps prints what is new in a view, and counts what has to stay.
func (a *app) drainSteps(v rpc.DrainView, said map[string]rpc.DrainItem, total map[string]bool) (stays int) {
	here := map[string]bool{}
	line := func(words ...string) {
		words = slices.DeleteFunc(words, func(s string) bool { return s == "" })
		a.notef("%s  %s", a.clock(a.opts.Now()), clean(strings.Join(words, "  ")))
	}
	for _, i := range v.Left {
		here[i.Instance], total[i.Instance] = true, true
		if i.State == "stays" {
			stays++
		}
		if old := said[i.Instance]; old.State != i.State || old.To != i.To || old.Why != i.Why {
			line(i.Instance, i.State, i.To, i.Why)
		}
		said[i.Instance] = i
	}
	for _, id := range slices.Sorted(maps.Keys(said)) {
		if !here[id] {
			line(id, "gone")
			delete(said, id)
		}
	}
	return stays
}

func (t target) kind() string {
	if t.worker == "" {
		return kindCluster
	}
	return kindWorker
}
