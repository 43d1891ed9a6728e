package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func (a *app) routeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "route", Short: "Show how services are routed, and what another policy would do",
		Args: cobra.ArbitraryArgs, RunE: group}
	cmd.AddCommand(a.routeShowCommand(), a.routePlanCommand())
	return cmd
}

func (a *app) routeShowCommand() *cobra.Command {
	mode, from := "", ""
	cmd := &cobra.Command{
		Use: "show SERVICE --from WORKER", Short: "Show how a worker routes a service", Args: oneArg("SERVICE"),
		Long: `Show how a worker routes a service: its endpoints, their distances and the source of
these, the share of new connections for each, and how many each got from this worker in
the last minute. The worker is asked now, and measures what it does not know.`,
		Example: "  verge route show shop.web --from w1\n  verge route show shop.web --from edge/w1 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				r, err := a.routeFrom(cmd, c, args[0], from)
				if err != nil {
					return err
				}
				if mode == "json" || mode == "yaml" {
					return a.encode(mode, r)
				}
				if mode != "name" {
					a.notef("%s from %s/%s by %s", r.Key(), r.Cluster, r.Worker, r.Policy)
					if s := sizesWord(r); s != "" {
						a.notef("%s", s)
					}
				}
				return routeColumns().print(a, mode, r.Endpoints, false)
			})
		},
	}
	fromFlag(cmd, &from)
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

func fromFlag(cmd *cobra.Command, from *string) {
	cmd.Flags().StringVar(from, "from", "", "the worker to ask: NAME or CLUSTER/NAME")
}

// routeFrom asks the worker of --from about a service.
func (a *app) routeFrom(cmd *cobra.Command, c *client.Client, service, from string) (r rpc.RouteReport, err error) {
	app, name, err := routedService(service)
	if err != nil {
		return r, err
	}
	if from == "" {
		return r, usageError(cmd,
			"--from WORKER is missing: each worker routes by its own distances; verge get workers lists them")
	}
	w, err := workerNamed(cmd.Context(), c, from)
	if err != nil {
		return r, err
	}
	return c.Workers.Route(cmd.Context(), w.Cluster, w.Name, app, name)
}

// routedService reads APPLICATION.SERVICE, with or without its kind before it.
func routedService(s string) (app, service string, err error) {
	app, service, ok := strings.Cut(strings.TrimPrefix(s, "service/"), ".")
	if !ok || app == "" || service == "" || strings.ContainsAny(service, "./") {
		return "", "", &userError{what: "not a service", why: fmt.Sprintf("%q", s),
			next: "write APPLICATION.SERVICE; verge get services lists them"}
	}
	return app, service, nil
}

// workerNamed finds a worker by NAME or CLUSTER/NAME.
func workerNamed(ctx context.Context, c *client.Client, s string) (w rpc.WorkerView, err error) {
	s = strings.TrimPrefix(s, "worker/")
	if cluster, name, ok := strings.Cut(s, "/"); ok { // what is not listed may be asked all the same
		w.Cluster, w.Name = cluster, name
		return w, nil
	}
	list, err := c.Workers.List(ctx)
	if err != nil {
		return w, err
	}
	var found []rpc.WorkerView
	for _, x := range list {
		if x.Name == s {
			found = append(found, x)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return w, &userError{what: "no such worker here", why: s,
			next: "verge get workers lists them; workers of other clusters are written CLUSTER/NAME"}
	}
	return w, &userError{what: "several workers have that name", why: s,
		next: "write " + found[0].Cluster + "/" + s + " or " + found[1].Cluster + "/" + s}
}

func routeColumns() listing[rpc.RouteEndpoint] {
	type view = rpc.RouteEndpoint
	return listing[view]{kind: kindInstance, name: func(v view) string { return v.Instance }, columns: []column[view]{
		{name: "instance", cell: func(v view) cell { return text(v.Instance) }},
		{name: "worker", cell: func(v view) cell { return text(v.Cluster + "/" + v.Worker) }},
		{name: "rtt", cell: func(v view) cell { return distanceCell(v.Local, v.RTT, v.Source) }},
		{name: "from", cell: func(v view) cell { return text(sourceWord(v.Local, v.Source)) }},
		{name: "share", cell: func(v view) cell { return text(percentOf(v.Share)) }},
		{name: "last minute", cell: func(v view) cell { return textf("%d", v.Recent) }},
		{name: "load", cell: func(v view) cell { return text(loadWord(v)) }},
		{name: "measured", wide: true, cell: func(v view) cell {
			if v.Source == "" {
				return text("")
			}
			return text(ageOf(v.AgeSeconds))
		}},
		{name: "line", wide: true, cell: func(v view) cell { return text(lineWord(v)) }},
		{name: "cpu", wide: true, cell: func(v view) cell { return text(cpuOf(v.CPU)) }},
		{name: "weight", wide: true, cell: func(v view) cell {
			if v.Weight == 0 {
				return text("")
			}
			return textf("%.1f", v.Weight)
		}},
		{name: "weight from", wide: true, cell: func(v view) cell {
			if v.ServesBy == "" && v.CPU > 0 {
				return text(rpc.WeightCPU)
			}
			return text(v.ServesBy)
		}},
		{name: "address", wide: true, cell: func(v view) cell { return text(v.Address) }},
		{name: "message", cell: func(v view) cell { return problem(v.Why) }},
	}}
}

// loadWord is what is known of the requests at an instance.
func loadWord(v rpc.RouteEndpoint) string {
	if v.Asleep {
		return "asleep"
	}
	var parts []string
	if v.InFlight > 0 {
		parts = append(parts, fmt.Sprintf("%d here", v.InFlight))
	}
	if v.Queue > 0 {
		parts = append(parts, fmt.Sprintf("%d wait", v.Queue))
	}
	if v.Capacity > 0 {
		parts = append(parts, fmt.Sprintf("can %.3g/s", v.Capacity))
	}
	return strings.Join(parts, ", ")
}

// lineWord is what is known of the line to the worker of an instance, "" for nothing.
func lineWord(v rpc.RouteEndpoint) string {
	var parts []string
	if v.Bandwidth > 0 {
		parts = append(parts, sizeOf(v.Bandwidth)+"/s there")
	}
	if v.Back > 0 {
		parts = append(parts, sizeOf(v.Back)+"/s back")
	}
	return strings.Join(parts, ", ")
}

// sizesWord is how large the requests of a service are, "" where none was seen.
func sizesWord(r rpc.RouteReport) string {
	if r.MeanBody == 0 && r.MeanAnswer == 0 {
		return ""
	}
	return fmt.Sprintf("its requests bring %s in the mean and are answered with %s", sizeOf(r.MeanBody),
		sizeOf(r.MeanAnswer))
}

// sizeOf writes bytes.
func sizeOf(bytes float64) string { return size(api.Bytes(bytes)) + "B" }

// cpuOf is what a worker gives to instances, "" where that is not known.
func cpuOf(c api.CPU) string {
	if c == 0 {
		return ""
	}
	return c.String()
}

func sourceWord(local bool, source string) string {
	switch {
	case local:
		return "own worker"
	case source == "":
		return route.Unknown.String()
	}
	return source
}

func distanceCell(local bool, rtt api.Duration, source string) cell {
	if local || source == "" {
		return text("")
	}
	return text(milliseconds(time.Duration(rtt)))
}

// milliseconds writes a distance with three digits or so.
func milliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.2f ms", ms)
}

func percentOf(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// viewOf is what the policy of a worker saw.
func viewOf(r rpc.RouteReport) route.View {
	list := make([]route.Endpoint, len(r.Endpoints))
	for i, e := range r.Endpoints {
		list[i] = route.Endpoint{
			ID: e.Instance + "@" + e.Cluster + "/" + e.Worker, Local: e.Local, Ordinal: e.Ordinal,
			RTT:   time.Duration(e.RTT),
			Ready: e.State != "no path", Ejected: e.State == "ejected", Suspect: e.State == "suspect",
		}
		switch e.Source {
		case route.Measured.String():
			list[i].Source = route.Measured
		case route.Estimated.String():
			list[i].Source = route.Estimated
		}
	}
	route.Weigh(list, func(i int) route.Capable {
		e := r.Endpoints[i]
		return route.Capable{Node: e.Cluster + "/" + e.Worker, Serves: e.Serves, CPU: float64(e.CPU)}
	})
	return route.NewView(0, list)
}
