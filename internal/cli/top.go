package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// topEvery is the pause between two measurements of top -w: long enough for a
// mean of cpu that does not jump.
const topEvery = 2 * time.Second

// topFlags of the top command.
type topFlags struct {
	mode, app string
	watch     bool
}

func (a *app) topCommand() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top instances|services|workers|clusters",
		Short: "Show what instances use and reserve, and the requests of services",
		Long: "Show what instances use now, beside their reservations and limits.\n" +
			"It is measured when you ask, so the answer takes a moment. What cannot be measured is listed with " +
			"the reason.\n" +
			"For services that scale by requests: the rate of the last two seconds, how long an instance works on a " +
			"request, and the\n" +
			"share that was not refused to keep the objective.",
		Example:   "  verge top instances --app guestbook\n  verge top workers -w\n  verge top services",
		Args:      oneArg("instances, services, workers or clusters"),
		ValidArgs: []string{"instances", "services", "workers", "clusters"},
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindOf(args[0])
			if err != nil {
				return err
			}
			if kind != kindInstance && kind != kindService && kind != kindWorker && kind != kindCluster {
				return &userError{what: "not possible for this kind", why: args[0],
					next: "it works for instances, services, workers and clusters"}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			return a.top(cmd.Context(), c, kind, f)
		},
	}
	cmd.Flags().StringVar(&f.app, "app", "", "only those of this application (instances, services)")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "measure repeatedly")
	outputFlag(cmd, &f.mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

func (a *app) top(ctx context.Context, c *client.Client, kind string, f topFlags) error {
	for said := false; ; {
		err := a.topOnce(ctx, c, kind, f)
		switch {
		case !f.watch:
			return err
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the user has seen enough
		case passing(err):
			if !said {
				a.notef("%s  %s; trying again", a.clock(a.opts.Now()), clean(firstLine(err)))
			}
			said = true
		case err != nil:
			return err
		default:
			said = false
		}
		_ = a.opts.Sleep(ctx, topEvery) // the next round looks at ctx
	}
}

func (a *app) topOnce(ctx context.Context, c *client.Client, kind string, f topFlags) error {
	switch kind {
	case kindService:
		list, err := topServices(ctx, c, f.app)
		return again(a, f, serviceTops(), list, err)
	case kindInstance:
		list, err := c.Metrics.Instances(ctx, f.app)
		return again(a, f, instanceTops(), list, err)
	case kindWorker:
		list, err := c.Metrics.Workers(ctx)
		if f.mode == "name" {
			list = slices.DeleteFunc(list, func(v rpc.WorkerTopView) bool { return v.Name == "" })
		}
		return again(a, f, workerTops(), list, err)
	}
	list, err := c.Metrics.Clusters(ctx)
	return again(a, f, clusterTops(), list, err)
}

// again prints a measurement, over the last one where that is possible.
func again[T any](a *app, f topFlags, l listing[T], list []T, err error) error {
	if err != nil {
		return err
	}
	if f.watch {
		if err := a.redraw(f.mode); err != nil {
			return err
		}
	}
	return l.print(a, f.mode, list, false)
}

// redraw clears a terminal, and elsewhere keeps what follows apart from what was
// before.
func (a *app) redraw(mode string) error {
	switch {
	case mode != "table" && mode != "wide":
		return nil
	case a.isTerminal(a.out):
		_, err := fmt.Fprint(a.out, "\x1b[H\x1b[2J")
		return err
	}
	return a.printf("\n%s", a.clock(a.opts.Now()))
}

// usedCPU, usedMemory and usedTasks are the cells of what was measured.
func usedCPU(u *rpc.Use) cell {
	if u == nil {
		return text("")
	}
	return text(millis(u.CPU))
}

func usedMemory(u *rpc.Use) cell {
	if u == nil {
		return text("")
	}
	return text(size(u.Memory))
}

func usedTasks(u *rpc.Use) cell {
	if u == nil {
		return text("")
	}
	return textf("%d", u.Tasks)
}

// millis is an amount of cpu in cores, to the thousandth: 0.003.
func millis(c api.CPU) string { return fmt.Sprintf("%.3f", float64(c)/1000) }

// orNone is a limit; 0 is none.
func orNone(n int64, s string) cell {
	if n == 0 {
		return text("")
	}
	return text(s)
}

func problem(why string) cell {
	if why == "" {
		return text("")
	}
	return cell{why, yellow}
}

func instanceTops() listing[rpc.InstanceTop] {
	type view = rpc.InstanceTop
	return listing[view]{kind: kindInstance, name: func(v view) string { return v.ID }, columns: []column[view]{
		{name: "instance", cell: func(v view) cell { return text(v.ID) }},
		{name: "cpu", cell: func(v view) cell { return usedCPU(v.Used) }},
		{name: "reserved", cell: func(v view) cell { return text(millis(v.Reserved.CPU)) }},
		{name: "limit", cell: func(v view) cell { return orNone(int64(v.Limits.CPU), millis(v.Limits.CPU)) }},
		{name: "memory", cell: func(v view) cell { return usedMemory(v.Used) }},
		{name: "reserved", cell: func(v view) cell { return text(size(v.Reserved.Memory)) }},
		{name: "limit", cell: func(v view) cell { return orNone(int64(v.Limits.Memory), size(v.Limits.Memory)) }},
		{name: "tasks", cell: func(v view) cell { return usedTasks(v.Used) }},
		{name: "where", cell: func(v view) cell {
			return text(where(wire.Instance{Cluster: v.Cluster,
				Worker: v.Worker}))
		}},
		{name: "namespace", wide: true, cell: func(v view) cell { return text(v.Namespace) }},
		{name: "heard", wide: true, cell: func(v view) cell { return text(ageOf(v.AgeSeconds)) }},
		{name: "message", cell: func(v view) cell { return topProblem(v.Used, v.Problem, v.AgeSeconds) }},
	}}
}

func workerTops() listing[rpc.WorkerTopView] {
	type view = rpc.WorkerTopView
	// A cluster that says nothing of its workers has a line without a name.
	name := func(v view) string { return v.Cluster + "/" + cmp.Or(strings.TrimPrefix(v.Name, v.Cluster+"/"), "?") }
	return listing[view]{kind: kindWorker, name: name, columns: []column[view]{
		{name: "worker", cell: func(v view) cell { return text(name(v)) }},
		{name: "cpu", cell: func(v view) cell { return usedCPU(v.Used) }},
		{name: "reserved", cell: func(v view) cell { return text(millis(v.Reserved.CPU)) }},
		{name: "capacity", cell: func(v view) cell { return text(millis(v.Capacity.CPU)) }},
		{name: "memory", cell: func(v view) cell { return usedMemory(v.Used) }},
		{name: "reserved", cell: func(v view) cell { return text(size(v.Reserved.Memory)) }},
		{name: "capacity", cell: func(v view) cell { return text(size(v.Capacity.Memory)) }},
		{name: "tasks", cell: func(v view) cell { return usedTasks(v.Used) }},
		{name: "instances", cell: func(v view) cell { return textf("%d", v.Instances) }},
		{name: "heard", wide: true, cell: func(v view) cell { return text(ageOf(v.AgeSeconds)) }},
		{name: "message", cell: func(v view) cell { return topProblem(v.Used, v.Problem, v.AgeSeconds) }},
	}}
}

func clusterTops() listing[apiv1.ClusterTop] {
	type view = apiv1.ClusterTop
	return listing[view]{kind: kindCluster, name: func(v view) string { return v.Name }, columns: []column[view]{
		{name: "cluster", cell: func(v view) cell { return text(v.Name) }},
		{name: "cpu", cell: func(v view) cell { return usedCPU(v.Used) }},
		{name: "reserved", cell: func(v view) cell { return text(millis(v.Reserved.CPU)) }},
		{name: "capacity", cell: func(v view) cell { return text(millis(v.Capacity.CPU)) }},
		{name: "memory", cell: func(v view) cell { return usedMemory(v.Used) }},
		{name: "reserved", cell: func(v view) cell { return text(size(v.Reserved.Memory)) }},
		{name: "capacity", cell: func(v view) cell { return text(size(v.Capacity.Memory)) }},
		{name: "tasks", cell: func(v view) cell { return usedTasks(v.Used) }},
		{name: "instances", cell: func(v view) cell { return textf("%d", v.Instances) }},
		{name: "measured", cell: func(v view) cell { return textf("%d/%d workers", v.Measured, v.Workers) }},
		{name: "heard", wide: true, cell: func(v view) cell { return text(ageOf(v.AgeSeconds)) }},
		{name: "message", cell: func(v view) cell { return topProblem(v.Used, v.Problem, v.AgeSeconds) }},
	}}
}

// topProblem says why there is no measurement, and since when there are no reports.
func topProblem(used *rpc.Use, why string, age float64) cell {
	if used != nil || why == "" {
		return problem(why)
	}
	if age >= 0 {
		why += ", last report " + ageOf(age) + " ago"
	}
	return problem(why)
}
