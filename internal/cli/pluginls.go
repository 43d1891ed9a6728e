package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

func (a *app) pluginLs() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the scheduler plugins of a cluster and their state",
		Args: noArgs,
		Long: `List the scheduler plugins of a cluster and their state (with a context of the
cluster). Counts begin when the cluster's orchestrator starts.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *client.Client) error {
				return show(a, a.plugins(), mode, "", false)(c.Plugins.List(cmd.Context()))
			})
		},
	}
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

func (a *app) pluginDescribe() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "describe NAME", Short: "Show a scheduler plugin: its last answers and failures, and its identities",
		Args: oneArg("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				return a.describePlugin(cmd.Context(), c, args[0],
					mode)
			})
		},
	}
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

// pluginStatus says in a word how a plugin does.
func (a *app) pluginStatus(v apiv1.PluginView) cell {
	switch {
	case !v.Registered:
		return cell{text: "not registered", colour: yellow}
	case v.Resting && v.Until.After(a.opts.Now()):
		return cell{text: "rests for " + age(v.Until.Sub(a.opts.Now())), colour: red}
	case v.Resting:
		return cell{text: "is tried out", colour: yellow}
	case v.Failed > 0:
		return cell{text: "fails", colour: yellow}
	case v.Last == nil:
		return text("never asked")
	}
	return text("answers")
}

// pluginAnswered is the result of a question that went well.
const pluginAnswered = "answered"

// pluginFailures counts the questions that went wrong, and says of what kinds they were.
func pluginFailures(v apiv1.PluginView) (n uint64, kinds string) {
	var parts []string
	for _, result := range slices.Sorted(maps.Keys(v.Calls)) {
		if result != pluginAnswered {
			n += v.Calls[result]
			parts = append(parts, fmt.Sprintf("%s %d", result, v.Calls[result]))
		}
	}
	return n, strings.Join(parts, ", ")
}

func (a *app) plugins() listing[apiv1.PluginView] {
	type view = apiv1.PluginView
	number := func(n uint64) cell { return text(strconv.FormatUint(n, 10)) }
	return listing[view]{kind: "plugin", name: func(v view) string { return v.Name }, columns: []column[view]{
		{name: "plugin", cell: func(v view) cell { return text(v.Name) }},
		{name: "status", cell: a.pluginStatus},
		{name: "address", cell: func(v view) cell { return text(v.Address) }},
		{name: "services", cell: func(v view) cell { return text(strconv.Itoa(v.Services)) }},
		{name: "answered", cell: func(v view) cell { return number(v.Calls[pluginAnswered]) }},
		{name: "failed", cell: func(v view) cell { n, _ := pluginFailures(v); return number(n) }},
		{name: "spared", wide: true, cell: func(v view) cell { return number(v.Spared) }},
		{name: "last", cell: func(v view) cell {
			if v.Last == nil {
				return text("")
			}
			return text(a.since(v.Last.At))
		}},
		{name: "identities", cell: func(v view) cell { return text(strconv.Itoa(len(v.Identities))) }},
		{name: "cluster", wide: true, cell: func(v view) cell { return text(v.Cluster) }},
	}}
}

func (a *app) describePlugin(ctx context.Context, c *client.Client, name, mode string) error {
	list, err := c.Plugins.List(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(v apiv1.PluginView) bool { return v.Name == name })
	if i < 0 {
		return &userError{what: "no such plugin", why: name,
			next: "list them with: verge plugin ls; register one with: verge cluster --plugin " + name + "=URL"}
	}
	v := list[i]
	if mode != "table" {
		return a.encode(mode, v)
	}
	d := &details{}
	d.add("Plugin", v.Name)
	d.add("Cluster", v.Cluster)
	d.add("Status", a.pluginStatus(v).text)
	d.add("Address", v.Address)
	if v.Joint {
		d.add("Asked about", "all services that wait at once")
	}
	by := wire.Count(v.Services, "service")
	if v.Default {
		by += ", among them what names no scheduler"
	}
	_, kinds := pluginFailures(v)
	if v.Registered {
		d.add("Places", by)
		d.addf("Answered", "%d", v.Calls[pluginAnswered])
	}
	d.add("Failed", kinds)
	if v.Spared > 0 {
		d.addf("Placed by rom", "%s, while it rested", wire.Count(int(v.Spared), "instance"))
	}
	if v.Open > 0 {
		d.addf("Open", "%s", wire.Count(v.Open, "question"))
	}
	d.add("Last question", a.pluginCall(v.Last))
	if v.Failure != nil && (v.Last == nil || !v.Failure.At.Equal(v.Last.At)) {
		d.add("Last failure", a.pluginCall(v.Failure))
	}
	if v.Resting {
		d.addf("Rests", "after %s in a row that failed; rom decides", wire.Count(v.Failed, "question"))
		if wait := v.Until.Sub(a.opts.Now()); wait > 0 {
			d.addf("Next question", "in %s", age(wait))
		}
	}
	if err := d.print(a); err != nil || len(v.Identities) == 0 {
		return err
	}
	if err := a.section("Identities"); err != nil {
		return err
	}
	var rows [][]cell
	for _, id := range v.Identities {
		expires := cell{text: id.Expires.UTC().Format(time.DateOnly)}
		if !id.Expires.After(a.opts.Now()) {
			expires = cell{text: expires.text + ", expired", colour: red}
		}
		rows = append(rows, []cell{text(id.ID), text(a.since(id.Joined)), expires})
	}
	return a.table([]string{"KEY", "JOINED", "EXPIRES"}, rows)
}

// pluginCall writes how a question ended.
func (a *app) pluginCall(p *apiv1.PluginCall) string {
	if p == nil {
		return ""
	}
	out := fmt.Sprintf("%s ago: %s after %s, about %s of %s, with %s", a.since(p.At), p.Result,
		milliseconds(time.Duration(p.Seconds*float64(time.Second))),
		wire.Count(p.Instances, "instance"), wire.Count(p.Services, "service"), wire.Count(p.Candidates, "candidate"))
	if p.Problem != "" {
		out += ": " + p.Problem
	}
	return out
}
