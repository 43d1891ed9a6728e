package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// getFlags of the get command.
type getFlags struct {
	mode, app, service string
	watch              bool
	namespaceFlags
}

func (a *app) getCommand() *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:   "get KIND [NAME]",
		Short: "List applications, services, jobs, instances, clusters, workers or namespaces",
		Long: `List applications (app), services (svc), jobs, instances (inst), clusters, workers
or namespaces (ns).

With a name, list only that one; instances and services also by the beginning of
their name.`,
		Example: "  verge get instances --app guestbook\n  verge get app/guestbook -o yaml\n  verge get instances -w",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return usageError(cmd, "give KIND [NAME]")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := ref(args)
			if err != nil {
				return err
			}
			if err := f.resolve(a, name); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			if f.watch {
				return a.getWatch(cmd.Context(), c, kind, name, f)
			}
			return a.get(cmd.Context(), c, kind, name, f)
		},
	}
	cmd.Flags().StringVar(&f.app, "app", "", "only those of this application (services, instances)")
	cmd.Flags().StringVar(&f.service, "service", "", "only those of this service (instances)")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "follow changes")
	f.add(cmd)
	outputFlag(cmd, &f.mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

func (a *app) get(ctx context.Context, c *client.Client, kind, name string, f getFlags) error {
	switch kind {
	case kindApplication:
		list, err := listApplications(ctx, c, name)
		return show(a, a.applications(), f.mode, name,
			false)(within(f.namespace, list, func(v apiv1.AppView) string { return v.Namespace }), err)
	case kindService:
		return show(a, services(), f.mode, name, true)(listServices(ctx, c, f.app, f.namespace))
	case kindJob:
		return show(a, a.jobs(), f.mode, name, true)(listJobs(ctx, c, f.app, f.namespace))
	case kindInstance:
		list, err := listInstances(ctx, c, name, f)
		return show(a, a.instances(), f.mode, name,
			true)(within(f.namespace, list, func(v apiv1.InstanceView) string { return v.Namespace }), err)
	case kindCluster:
		return show(a, clusters(), f.mode, name, false)(c.Clusters.List(ctx))
	case kindNamespace:
		return show(a, a.namespaces(), f.mode, name, false)(c.Namespaces.List(ctx))
	default:
		return show(a, workers(), f.mode, name, false)(c.Workers.List(ctx))
	}
}

// listApplications are all of them; the one with a name has its descriptor.
func listApplications(ctx context.Context, c *client.Client, name string) ([]apiv1.AppView, error) {
	if name != "" {
		v, err := c.Applications.Get(ctx, name)
		if !notFound(err) {
			return []apiv1.AppView{v}, err
		}
	}
	return c.Applications.List(ctx)
}

// show prints those of a list that have the name, or, if it may be a prefix,
// begin with it. A name that nothing has is an error.
func show[T any](a *app, l listing[T], mode, name string, prefix bool) func([]T, error) error {
	return func(list []T, err error) error {
		if err != nil {
			return err
		}
		single := false
		if name != "" {
			if i := slices.IndexFunc(list, func(v T) bool { return l.name(v) == name }); i >= 0 {
				list, single = list[i:i+1], true
			} else {
				list = slices.DeleteFunc(list, func(v T) bool { return !prefix || !strings.HasPrefix(l.name(v), name) })
			}
			if len(list) == 0 {
				return &userError{what: "no such " + l.kind, why: name,
					next: "list them with: verge get " + l.kind + "s"}
			}
		}
		return l.print(a, mode, list, single)
	}
}

// serviceItem is a service with the application that it belongs to.
type serviceItem struct {
	App       string `json:"app"`
	Namespace string `json:"namespace,omitempty"`
	apiv1.ServiceView
}

func listServices(ctx context.Context, c *client.Client, app, namespace string) ([]serviceItem, error) {
	apps, err := c.Applications.List(ctx)
	apps = within(namespace, apps, func(v apiv1.AppView) string { return v.Namespace })
	var list []serviceItem
	for _, v := range apps {
		if app != "" && v.Name != app {
			continue
		}
		for _, s := range v.Services {
			list = append(list, serviceItem{v.Name, v.Namespace, s})
		}
	}
	return list, err
}

func listInstances(ctx context.Context, c *client.Client, name string, f getFlags) ([]apiv1.InstanceView, error) {
	if f.app == "" && strings.Contains(name, ".") {
		f.app, _, _ = strings.Cut(name, ".")
	}
	return c.Instances.List(ctx, f.app, f.service)
}

func (a *app) applications() listing[apiv1.AppView] {
	return listing[apiv1.AppView]{kind: kindApplication, name: func(v apiv1.AppView) string { return v.Name },
		columns: []column[apiv1.AppView]{
			{name: "application", cell: func(v apiv1.AppView) cell { return text(v.Name) }},
			{name: "revision", cell: func(v apiv1.AppView) cell { return text(revision(v.Revision)) }},
			{name: "ready", cell: func(v apiv1.AppView) cell { return text(readyOf(v.Services)) }},
			{name: "status", cell: appStatus},
			{name: "applied", cell: func(v apiv1.AppView) cell { return text(a.since(v.Applied)) }},
			{name: "namespace", wide: true, cell: func(v apiv1.AppView) cell { return text(v.Namespace) }},
			{name: "services", wide: true, cell: func(v apiv1.AppView) cell { return textf("%d", len(v.Services)) }},
			{name: "created", wide: true, cell: func(v apiv1.AppView) cell { return text(a.since(v.Created)) }},
			{name: "restarts", wide: true, cell: func(v apiv1.AppView) cell { return textf("%d", v.Tally.Restarts) }},
			{name: "changes", wide: true, cell: func(v apiv1.AppView) cell { return textf("%d", v.Tally.Changes) }},
			{name: "message", cell: func(v apiv1.AppView) cell { return text(v.Message) }},
		}}
}

// countReady is how many of the instances that there are to be are ready, or of the indexes of
// jobs complete, and how many sleep. A service whose requests decide may have more than it
// promises, which then are to be; one with a schedule promises none.
func countReady(list []apiv1.ServiceView) (ready, wanted, asleep int) {
	for _, s := range list {
		switch {
		case s.Job != nil && s.Job.Schedule != "":
		case s.Job != nil:
			ready, wanted = ready+s.Job.Completed, wanted+max(s.Job.Completions, s.Job.Completed)
		case s.Most > 0:
			ready, wanted, asleep = ready+s.Ready, wanted+max(s.Ready, s.Wanted-s.Asleep), asleep+s.Asleep
		default:
			ready, wanted, asleep = ready+min(s.Ready, s.Wanted), wanted+s.Wanted, asleep+s.Asleep
		}
	}
	return ready, wanted, asleep
}

// readyOf is countReady for a table.
func readyOf(list []apiv1.ServiceView) string {
	ready, wanted, asleep := countReady(list)
	switch {
	case wanted > 0:
		return fmt.Sprintf("%d/%d", ready, wanted)
	case asleep > 0:
		return "asleep"
	}
	return "-"
}

// readyWords is countReady for a sentence: "3/3 instances ready".
func readyWords(list []apiv1.ServiceView) string {
	ready, wanted, asleep := countReady(list)
	var out []string
	if wanted > 0 {
		out = append(out, fmt.Sprintf("%d/%d instances ready", ready, wanted))
	}
	if asleep > 0 {
		out = append(out, fmt.Sprintf("%d asleep until a request comes", asleep))
	}
	for _, s := range list {
		if s.Job != nil && s.Job.Schedule != "" {
			out = append(out, s.Name+" runs by its schedule")
		}
	}
	if len(out) == 0 {
		return "nothing to run"
	}
	return strings.Join(out, ", ")
}

func appStatus(v apiv1.AppView) cell {
	switch {
	case v.Deleting:
		return cell{"deleting", yellow}
	case v.Holds:
		return text("ready")
	}
	return cell{"incomplete", yellow}
}

func services() listing[serviceItem] {
	return listing[serviceItem]{kind: kindService, name: func(v serviceItem) string { return v.App + "." + v.Name },
		columns: []column[serviceItem]{
			{name: "service", cell: func(v serviceItem) cell { return text(v.App + "." + v.Name) }},
			{name: "wanted", cell: func(v serviceItem) cell {
				if v.Job != nil && v.Job.Schedule != "" {
					return text("by schedule")
				}
				return text(wantedOf(v.ServiceView))
			}},
			{name: "placed", cell: func(v serviceItem) cell { return textf("%d", v.Placed) }},
			{name: "running", cell: func(v serviceItem) cell { return textf("%d", v.Running) }},
			{name: "ready", cell: func(v serviceItem) cell {
				if v.Job != nil && v.Job.Schedule != "" {
					return text("-")
				}
				if v.Job != nil {
					return textf("%d done", v.Job.Completed)
				}
				if v.Ready < v.Wanted {
					return cell{fmt.Sprint(v.Ready), yellow}
				}
				return textf("%d", v.Ready)
			}},
			{name: "clusters", cell: func(v serviceItem) cell { return text(strings.Join(v.Clusters, ",")) }},
			{name: "namespace", wide: true, cell: func(v serviceItem) cell { return text(v.Namespace) }},
			{name: "hosts", wide: true, cell: func(v serviceItem) cell { return text(strings.Join(v.Hosts, ",")) }},
			{name: "message", cell: func(v serviceItem) cell { return text(v.Message) }},
		}}
}

// wantedOf is how many instances there are to be: a number, or between which.
func wantedOf(s apiv1.ServiceView) string {
	if s.Most > 0 {
		return fmt.Sprintf("%d-%d", s.Wanted, s.Most)
	}
	return fmt.Sprint(s.Wanted)
}

func (a *app) instances() listing[apiv1.InstanceView] {
	type view = apiv1.InstanceView
	return listing[view]{kind: kindInstance, name: func(v view) string { return v.ID }, columns: []column[view]{
		{name: "instance", cell: func(v view) cell { return text(v.ID) }},
		{name: "state", cell: instanceState},
		{name: "ready", cell: instanceReady},
		{name: "where", cell: func(v view) cell { return text(where(v.Instance)) }},
		{name: "restarts", cell: func(v view) cell { return textf("%d", v.Again()) }},
		{name: "since", cell: func(v view) cell { return text(a.since(v.Since)) }},
		{name: "says", cell: func(v view) cell { return textf("%s %s ago", v.Source, ageOf(v.AgeSeconds)) }},
		{name: "namespace", wide: true, cell: func(v view) cell { return text(v.Namespace) }},
		{name: "revision", wide: true, cell: func(v view) cell { return text(revision(v.Revision)) }},
		{name: "incarnation", wide: true, cell: func(v view) cell { return textf("%d", v.Incarnation) }},
		{name: "addresses", wide: true, cell: func(v view) cell { return text(addresses(v.Addrs)) }},
		{name: "reason", wide: true, cell: func(v view) cell { return text(v.Reason) }},
	}}
}

// instanceState is the state with the conditions that limit it.
func instanceState(v apiv1.InstanceView) cell {
	c := text(string(v.State))
	if v.State == wire.Failed {
		c.colour = red
	}
	if v.Asleep {
		c.text += ",asleep"
	}
	if v.Draining {
		c = cell{c.text + ",draining", yellow}
	}
	if v.Unreachable {
		c = cell{c.text + ",unreachable", yellow}
	}
	return c
}

// instanceReady: of what cannot be reached nobody knows it now.
func instanceReady(v apiv1.InstanceView) cell {
	if v.Unreachable {
		return cell{"unknown", yellow}
	}
	return text(yesNo(v.Ready))
}

// where an instance is: "edge/w1", "edge", or "".
func where(i wire.Instance) string {
	if i.Worker == "" {
		return i.Cluster
	}
	return i.Cluster + "/" + strings.TrimPrefix(i.Worker, i.Cluster+"/")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func clusters() listing[apiv1.ClusterView] {
	type view = apiv1.ClusterView
	of := func(f func(wire.Aggregate) string) func(view) cell {
		return func(v view) cell {
			if v.Aggregate == nil {
				return text("")
			}
			return text(f(*v.Aggregate))
		}
	}
	return listing[view]{kind: kindCluster, name: func(v view) string { return v.Name }, columns: []column[view]{
		{name: "cluster", cell: func(v view) cell { return text(v.Name) }},
		{name: "status", cell: func(v view) cell {
			if v.Connected {
				return cordoned(text("connected"), v.Cordon)
			}
			return cordoned(cell{"disconnected", red}, v.Cordon)
		}},
		{name: "report", cell: func(v view) cell { return text(ageOf(v.AgeSeconds)) }},
		{name: "workers", cell: of(func(g wire.Aggregate) string {
			n := fmt.Sprint(g.Workers)
			if g.Suspect > 0 {
				n += fmt.Sprintf(" (+%d suspect)", g.Suspect)
			}
			if g.Cordoned > 0 {
				n += fmt.Sprintf(" (+%d cordoned)", g.Cordoned)
			}
			return n
		})},
		{name: "instances", cell: of(func(g wire.Aggregate) string { return fmt.Sprint(g.Instances) })},
		{name: "cpu free", cell: of(func(g wire.Aggregate) string {
			return cores(api.CPU(g.CPU.Sum)) + "/" + cores(g.Capacity.CPU)
		})},
		{name: "memory free", cell: of(func(g wire.Aggregate) string {
			return size(api.Bytes(g.Memory.Sum)) + "/" + size(g.Capacity.Memory)
		})},
		{name: "disk free", wide: true, cell: of(func(g wire.Aggregate) string {
			return size(api.Bytes(g.Disk.Sum)) + "/" + size(g.Capacity.Disk)
		})},
		{name: "version", wide: true, cell: func(v view) cell { return text(v.Version) }},
		{name: "operator", wide: true, cell: of(func(g wire.Aggregate) string { return g.Site.Operator })},
		{name: "location", wide: true, cell: of(func(g wire.Aggregate) string { return pointOf(g.Site.Location) })},
		{name: "labels", wide: true, cell: of(func(g wire.Aggregate) string { return labelsOf(g.Site.Labels) })},
		{name: "areas", cell: func(v view) cell { return text(strings.Join(v.Areas, ",")) }},
	}}
}

func workers() listing[rpc.WorkerView] {
	type view = rpc.WorkerView
	return listing[view]{kind: kindWorker, name: workerName, columns: []column[view]{
		{name: "worker", cell: func(v view) cell { return text(workerName(v)) }},
		{name: "status", cell: func(v view) cell {
			if v.Status == "ready" {
				return cordoned(text(v.Status), v.Cordon)
			}
			return cordoned(cell{v.Status, red}, v.Cordon)
		}},
		{name: "report", cell: func(v view) cell { return text(ageOf(v.AgeSeconds)) }},
		{name: "instances", cell: func(v view) cell { return textf("%d", v.Instances) }},
		{name: "cpu", cell: func(v view) cell { return text(cores(v.Used.CPU) + "/" + cores(v.Capacity.CPU)) }},
		{name: "memory", cell: func(v view) cell { return text(size(v.Used.Memory) + "/" + size(v.Capacity.Memory)) }},
		{name: "disk", wide: true,
			cell: func(v view) cell { return text(size(v.Used.Disk) + "/" + size(v.Capacity.Disk)) }},
		{name: "devices", wide: true, cell: func(v view) cell { return text(devicesOf(v.Devices)) }},
		{name: "address", wide: true, cell: func(v view) cell { return text(v.Address) }},
		{name: "gateway", cell: gatewayCell},
		{name: "platform", wide: true, cell: func(v view) cell { return text(v.OS + "/" + v.Arch) }},
		{name: "runtimes", wide: true, cell: func(v view) cell { return text(strings.Join(v.Runtimes, ",")) }},
		{name: "limits", wide: true, cell: func(v view) cell { return text(limitsOf(v)) }},
		{name: "features", wide: true, cell: func(v view) cell { return text(strings.Join(v.Features, ",")) }},
		{name: "location", wide: true, cell: func(v view) cell { return text(pointOf(v.Location)) }},
		{name: "labels", wide: true, cell: func(v view) cell { return text(labelsOf(v.Labels)) }},
		{name: "version", wide: true, cell: func(v view) cell { return text(v.Version) }},
		{name: "network", wide: true, cell: func(v view) cell { return text(networkOf(v)) }},
	}}
}

// limitsOf says whether a worker enforces limits, and why not.
func limitsOf(v rpc.WorkerView) string {
	if v.Cgroup == "" && v.AgeSeconds >= 0 {
		return "enforced"
	}
	return v.Cgroup
}

// cordoned adds to a status that something was taken out of use.
func cordoned(c cell, by *wire.Cordon) cell {
	switch {
	case by == nil:
		return c
	case by.Drain:
		c.text += ",draining"
	default:
		c.text += ",cordoned"
	}
	if c.colour == "" {
		c.colour = yellow
	}
	return c
}

// pointOf is "48.14,11.58", "" where it is not known.
func pointOf(p *api.Point) string {
	if p == nil {
		return ""
	}
	return p.String()
}

// labelsOf is "disk=ssd,zone=a".
func labelsOf(labels map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, k+"="+labels[k])
	}
	return strings.Join(all, ",")
}

// workerName is "cluster/worker", however the worker calls itself.
func workerName(v rpc.WorkerView) string {
	if v.Cluster == "" {
		return v.Name
	}
	return v.Cluster + "/" + strings.TrimPrefix(v.Name, v.Cluster+"/")
}
