package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func (a *app) describeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "describe KIND/NAME",
		Short:   "Show everything known about an application, service, job, instance, cluster, worker or namespace",
		Example: "  verge describe instance/guestbook.front.0\n  verge describe app/guestbook",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 || (len(args) == 1 && !strings.Contains(args[0], "/")) {
				return usageError(cmd, "give KIND/NAME")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := ref(args)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			ctx := cmd.Context()
			switch kind {
			case kindApplication:
				return a.describeApplication(ctx, c, name)
			case kindService, kindJob:
				return a.describeService(ctx, c, name)
			case kindInstance:
				return a.describeInstance(ctx, c, name)
			case kindCluster:
				return a.describeCluster(ctx, c, name)
			case kindNamespace:
				return a.describeNamespace(ctx, c, name)
			default:
				return a.describeWorker(ctx, c, name)
			}
		},
	}
}

// details are lines of "Name:  value".
type details struct {
	names, values []string
}

// add a line; an empty value is left out.
func (d *details) add(name, value string) {
	if value != "" {
		d.names = append(d.names, name+":")
		d.values = append(d.values, value)
	}
}

func (d *details) addf(name, format string, args ...any) { d.add(name, fmt.Sprintf(format, args...)) }

func (d *details) print(a *app) error {
	width := 0
	for _, n := range d.names {
		width = max(width, utf8.RuneCountInString(n))
	}
	for i, n := range d.names {
		pad := strings.Repeat(" ", width-utf8.RuneCountInString(n)+2)
		if err := a.printf("%s%s%s", n, pad, clean(d.values[i])); err != nil {
			return err
		}
	}
	return nil
}

// moment writes a time with its age.
func (a *app) moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s ago)", t.In(a.opts.Now().Location()).Format(time.RFC3339), a.since(t))
}

func (a *app) section(title string) error { return a.printf("\n%s", title) }

func (a *app) describeApplication(ctx context.Context, c *client.Client, name string) error {
	v, err := c.Applications.Get(ctx, name)
	if err != nil {
		return err
	}
	list, err := c.Instances.List(ctx, name, "")
	if err != nil {
		return err
	}
	d := &details{}
	d.add("Application", v.Name)
	d.add("Namespace", v.Namespace)
	d.add("Revision", revision(v.Revision))
	d.add("Number", appNumber(v.Number))
	d.add("Status", appStatus(v).text)
	d.add("Message", v.Message)
	d.add("Created", a.moment(v.Created))
	d.add("Applied", a.moment(v.Applied))
	d.add("Counts", v.Tally.String())
	if err := d.print(a); err != nil {
		return err
	}
	if err := a.section("Services"); err != nil {
		return err
	}
	items := make([]serviceItem, len(v.Services))
	for i, s := range v.Services {
		items[i] = serviceItem{v.Name, v.Namespace, s}
	}
	if err := services().print(a, "wide", items, false); err != nil {
		return err
	}
	if err := a.localSections(v.Local, v.Conflicts); err != nil {
		return err
	}
	return a.instanceSection(list)
}

func (a *app) instanceSection(list []apiv1.InstanceView) error {
	if err := a.section("Instances"); err != nil {
		return err
	}
	if len(list) == 0 {
		return a.printf("none")
	}
	return a.instances().print(a, "table", list, false)
}

func (a *app) describeService(ctx context.Context, c *client.Client, name string) error {
	s, err := findService(ctx, c, name)
	if err != nil {
		return err
	}
	app, service, _ := strings.Cut(name, ".")
	list, err := c.Instances.List(ctx, app, service)
	if err != nil {
		return err
	}
	d := &details{}
	d.add("Service", name)
	count := fmt.Sprintf("%s wanted, %d placed, %d running, %d ready", wantedOf(s), s.Placed, s.Running, s.Ready)
	if s.Asleep > 0 {
		count += fmt.Sprintf(", %d asleep until the next request", s.Asleep)
	}
	d.add("Instances", count)
	a.describeJob(d, s.Job)
	d.add("Message", s.Message)
	d.add("Clusters", strings.Join(s.Clusters, ", "))
	d.add("Hosts", strings.Join(s.Hosts, ", "))
	if err := d.print(a); err != nil {
		return err
	}
	if err := a.runSection(s.Job); err != nil {
		return err
	}
	return a.instanceSection(list)
}

func (a *app) describeInstance(ctx context.Context, c *client.Client, name string) error {
	found, err := findInstance(ctx, c, name)
	if err != nil {
		return err
	}
	v, err := c.Instances.Get(ctx, found.ID) // a list may leave the history out
	if err != nil {
		return err
	}
	d := &details{}
	d.add("Instance", v.ID)
	d.addf("State", "%s since %s", instanceState(v).text, a.moment(v.Since))
	d.add("Ready", instanceReady(v).text)
	d.add("Reason", v.Reason)
	d.add("Where", where(v.Instance))
	d.add("Addresses", addresses(v.Addrs))
	d.add("Revision", revision(v.Revision))
	d.addf("Incarnation", "%d", v.Incarnation)
	d.addf("Restarts", "%d", v.Again())
	d.add("Last exit", a.exit(v.LastExit))
	d.add("Replaces", v.Replaces)
	if v.Shadow != nil {
		d.addf("Shadow", "incarnation %d on %s, believed lost", v.Shadow.Incarnation, v.Shadow.Worker)
	}
	if m := v.Moving; m != nil && m.Failed == "" {
		d.addf("Moving", "to %s, incarnation %d, since %s", m.Worker, m.Incarnation, a.moment(m.Since))
	} else if m != nil {
		d.addf("Moving", "failed on %s: %s, %s", m.Worker, m.Failed, a.moment(m.Since))
	}
	if l := v.Leaving; l != nil {
		d.addf("Leaving", "incarnation %d on %s ends, since %s", l.Incarnation, l.Worker, a.moment(l.Started))
	}
	for _, h := range v.Secrets {
		d.add("Secret "+h.Name, a.heldSecret(v, h))
	}
	d.add("Avoids", strings.Join(v.Avoid, ", "))
	d.addf("Says", "%s, %s ago", v.Source, ageOf(v.AgeSeconds))
	if err := d.print(a); err != nil {
		return err
	}
	if len(v.History) == 0 {
		return nil
	}
	if err := a.section("History"); err != nil {
		return err
	}
	rows := make([][]cell, len(v.History))
	for i, h := range v.History {
		rows[i] = []cell{text(a.clock(h.At)), text(a.since(h.At)), text(string(h.To)), text(h.Tier), text(h.Why)}
	}
	return a.table([]string{"TIME", "AGE", "STATE", "TIER", "WHY"}, rows)
}

// heldSecret says which value of a secret an instance has.
func (a *app) heldSecret(v apiv1.InstanceView, h wire.SecretHeld) string {
	has := "has the value from " + a.moment(h.At)
	if h.At.IsZero() {
		has = "has a value"
	}
	switch {
	case h.Why != "":
		return has + "; the newest could not be written to its files (it is retried): " + h.Why
	case h.Next != "" && h.Next == h.Version:
		return has + " in its files; its variables have the former one until: verge restart instance/" + v.ID
	case h.Next != "":
		return has + "; there is a newer one for its next start: verge restart instance/" + v.ID
	}
	return has
}

// exit says how a process ended, "" if none did.
func (a *app) exit(e *wire.Exit) string {
	if e == nil {
		return ""
	}
	how := fmt.Sprintf("code %d", e.Code)
	switch {
	case e.Unknown && e.Why != "":
		how = "code unknown"
	case e.Unknown:
		how = "exit code unknown: nobody saw it end"
	case e.OOM:
		how = "killed: out of memory"
	case e.Signal != "":
		how = fmt.Sprintf("signal %s (code %d)", e.Signal, e.Code)
	}
	if e.Why != "" {
		how = e.Why + "; " + how
	}
	if e.At.IsZero() {
		return how
	}
	return how + ", " + a.moment(e.At)
}

func (a *app) describeCluster(ctx context.Context, c *client.Client, name string) error {
	list, err := c.Clusters.List(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(v apiv1.ClusterView) bool { return v.Name == name })
	if i < 0 {
		return &userError{what: "no such cluster", why: name, next: "list them with: verge get clusters"}
	}
	v := list[i]
	d := &details{}
	d.add("Cluster", v.Name)
	d.add("Connected", yesNo(v.Connected))
	d.addf("Last report", "%s", agoOf(v.AgeSeconds))
	d.add("Cordon", a.cordonWords(v.Cordon))
	d.add("Areas", strings.Join(v.Areas, ", "))
	d.add("Version", v.Version)
	d.add("Joined", a.moment(v.Joined))
	d.add("Counts", restartCounts(v.Tally))
	d.add("Since it was away", a.countsSince(v.SinceAway))
	if n := v.Network; n != nil {
		d.addf("Network", "%s, %s (needs %d, %d)%s", wire.Count(n.Numbers, "number"),
			wire.Count(n.Subnets, "IPv4 network"), n.NeedNumbers, n.NeedSubnets, relayCount(n.Relays))
	}
	if g := v.Aggregate; g != nil {
		d.addf("Workers", "%d ready, %d suspect, %d cordoned", g.Workers, g.Suspect, g.Cordoned)
		d.addf("Instances", "%d", g.Instances)
		d.add("Operator", g.Site.Operator)
		d.add("Location", pointOf(g.Site.Location))
		d.labels("Label", g.Site.Labels)
		d.add("Runtimes", strings.Join(g.Runtimes, ", "))
		d.add("Architectures", counts(g.Architectures))
		d.add("Workers with", counts(g.Labels))
		if g.Disc != nil {
			d.addf("Workers stand", "within %g km of %s (%d have a location)", g.Disc.RadiusKm, g.Disc.Center,
				g.Disc.Workers)
		}
		d.add("CPU free", spread(g.CPU, g.Capacity.CPU, cores))
		d.add("Memory free", spread(g.Memory, g.Capacity.Memory, size))
		d.add("Disk free", spread(g.Disk, g.Capacity.Disk, size))
		clusterDevices(d, g)
		d.add("Details", map[bool]string{true: "shared with the root", false: "kept by the cluster"}[g.Details])
	}
	if err := d.print(a); err != nil {
		return err
	}
	return a.localSections(v.Local, v.Conflicts)
}

// cordonWords says who took something out of use, when and why; "" if nobody did.
func (a *app) cordonWords(c *wire.Cordon) string {
	if c == nil {
		return ""
	}
	words := "takes nothing new"
	if c.Drain {
		words += ", and its instances move away"
	}
	words += ", since " + a.moment(c.At)
	if c.By != "" {
		words += " by " + c.By
	}
	if c.Why != "" {
		words += ": " + c.Why
	}
	return words
}

// labels adds a line for each.
func (d *details) labels(name string, labels map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		d.addf(name, "%s=%s", k, labels[k])
	}
}

// counts writes "amd64 (2), arm64 (1)", the most frequent first and no more than a
// dozen.
func counts(m map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(m),
		func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
	var all []string
	for i, k := range keys {
		if i == 12 {
			all = append(all, fmt.Sprintf("%d more", len(keys)-i))
			break
		}
		all = append(all, fmt.Sprintf("%s (%d)", k, m[k]))
	}
	return strings.Join(all, ", ")
}

func agoOf(seconds float64) string {
	if seconds < 0 {
		return "never"
	}
	return ageOf(seconds) + " ago"
}

// spread writes how what is free is distributed.
func spread[T ~int64](s wire.Spread, capacity T, write func(T) string) string {
	return fmt.Sprintf("%s of %s; per worker %s on average, %s at most", write(T(s.Sum)), write(capacity),
		write(T(s.Mean)), write(T(s.Max)))
}

// findWorker is the worker that name, "worker" or "cluster/worker", means.
func findWorker(ctx context.Context, c *client.Client, name string) (rpc.WorkerView, error) {
	list, err := c.Workers.List(ctx)
	if err != nil {
		return rpc.WorkerView{}, err
	}
	var found []rpc.WorkerView
	for _, v := range list {
		if workerName(v) == name || v.Name == name {
			found = append(found, v)
		}
	}
	switch {
	case len(found) == 0:
		return rpc.WorkerView{}, &userError{what: "no such worker", why: name,
			next: "list them with: verge get workers"}
	case len(found) > 1:
		return rpc.WorkerView{}, &userError{what: "more than one worker", why: name, next: "write worker/CLUSTER/NAME"}
	}
	return found[0], nil
}

func (a *app) describeWorker(ctx context.Context, c *client.Client, name string) error {
	v, err := findWorker(ctx, c, name)
	if err != nil {
		return err
	}
	d := &details{}
	d.add("Worker", workerName(v))
	d.add("Status", v.Status)
	d.add("Cordon", a.cordonWords(v.Cordon))
	d.addf("Last report", "%s", agoOf(v.AgeSeconds))
	d.add("Version", v.Version)
	d.add("Platform", v.OS+"/"+v.Arch)
	d.add("Runtimes", strings.Join(v.Runtimes, ", "))
	d.add("Limits", limitsOf(v))
	d.add("Address", v.Address)
	d.add("Gateway", v.Gateway)
	a.workerGateway(d, v.Published)
	d.add("Gateway grant", a.grantWords(v))
	workerNetwork(d, v)
	d.add("Features", strings.Join(v.Features, ", "))
	d.add("Location", pointOf(v.Location))
	d.labels("Label", v.Labels)
	d.add("Host paths", strings.Join(v.HostPaths, ", "))
	if i := v.Isolation; i != nil {
		d.add("Isolation", isolationText(i))
		d.add("Host users", strings.Join(i.HostUsers, ", "))
	}
	d.addf("Instances", "%d", v.Instances)
	d.addf("CPU", "%s of %s reserved", cores(v.Used.CPU), cores(v.Capacity.CPU))
	d.addf("Memory", "%s of %s reserved", size(v.Used.Memory), size(v.Capacity.Memory))
	d.addf("Disk", "%s of %s reserved", size(v.Used.Disk), size(v.Capacity.Disk))
	workerDevices(d, v)
	for _, p := range v.Problems {
		d.add("Problem", p)
	}
	if err := d.print(a); err != nil {
		return err
	}
	if err := a.drainSection(ctx, c, v); err != nil {
		return err
	}
	return a.entrySection(ctx, c, v)
}

// isolationText says who processes run as on a worker.
func isolationText(i *wire.Isolation) string {
	if i.Users {
		return strings.TrimSuffix("each process has a user of its own; "+i.Missing, "; ")
	}
	return "none: processes run as the worker's user and can read what it can: " + i.Why
}

// drainSection lists what is still on a worker that is drained, and what that waits
// for.
func (a *app) drainSection(ctx context.Context, c *client.Client, v rpc.WorkerView) error {
	if v.Cordon == nil || !v.Cordon.Drain {
		return nil
	}
	drain, err := c.Workers.Drain(ctx, v.Cluster, v.Name)
	if err != nil {
		var p *wire.Problem
		if errors.As(err, &p) && p.Code == "elsewhere" {
			return nil // its cluster says it
		}
		return a.printf("\nWhat is still here is unknown: %s", clean(err.Error()))
	}
	if err := a.section("Still here (end it with: verge uncordon worker/" + v.Name + ")"); err != nil {
		return err
	}
	if len(drain.Left) == 0 {
		return a.printf("nothing")
	}
	rows := make([][]cell, len(drain.Left))
	for n, i := range drain.Left {
		rows[n] = []cell{text(i.Instance), text(i.State), text(i.To), text(i.Why)}
	}
	return a.table([]string{"INSTANCE", "STATE", "TO", "WHY"}, rows)
}

// entrySection lists where services are reached on a worker. One that cannot be
// asked is described all the same.
func (a *app) entrySection(ctx context.Context, c *client.Client, v rpc.WorkerView) error {
	if err := a.section("Services here (addresses on the worker's own machine)"); err != nil {
		return err
	}
	list, err := c.Workers.Entries(ctx, v.Cluster, v.Name)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return a.printf("not known: %s", clean(err.Error()))
	case len(list) == 0:
		return a.printf("none")
	}
	header, rows := []string{"SERVICE", "PORT", "ADDRESS"}, make([][]cell, len(list))
	wrong := slices.ContainsFunc(list, func(e rpc.EntryView) bool { return e.Problem != "" })
	if wrong {
		header = append(header, "PROBLEM")
	}
	for i, e := range list {
		rows[i] = []cell{text(e.App + "." + e.Service), text(e.Port), text(e.Addr)}
		if wrong {
			rows[i] = append(rows[i], cell{e.Problem, red})
		}
	}
	return a.table(header, rows)
}
