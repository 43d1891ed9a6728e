package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func (a *app) netcheckCommand() *cobra.Command {
	mode, from := "", ""
	cmd := &cobra.Command{
		Use: "netcheck --from WORKER", Short: "Check how a worker reaches the others", Args: cobra.NoArgs,
		Long: `Check how a worker reaches the other workers to which it has routes: the path and its
reason, the distance and its source. The worker measures now. The question opens no
port: it takes the same connection as verge logs.`,
		Example: "  verge netcheck --from w1\n  verge netcheck --from edge/w1 -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" {
				return usageError(cmd, "--from WORKER is missing; verge get workers lists them")
			}
			return a.withClient(func(c *client.Client) error {
				w, err := workerNamed(cmd.Context(), c, from)
				if err != nil {
					return err
				}
				r, err := c.Workers.Net(cmd.Context(), w.Cluster, w.Name)
				if err != nil {
					return err
				}
				if mode == "json" || mode == "yaml" {
					return a.encode(mode, r)
				}
				if text := dropped(r.Dropped); text != "" && mode != "name" {
					a.notef("%s/%s dropped %s", w.Cluster, w.Name, text)
				}
				switch {
				case len(r.Peers) == 0:
					a.notef("%s/%s has no routes to other workers", w.Cluster, w.Name)
					return nil
				case mode == "name":
				case r.Error < 1.5:
					a.notef("%s/%s; average error of its coordinate: %s", w.Cluster, w.Name, percentOf(r.Error))
				default:
					a.notef("%s/%s; no coordinate yet", w.Cluster, w.Name)
				}
				return peerColumns().print(a, mode, r.Peers, false)
			})
		},
	}
	fromFlag(cmd, &from)
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

// dropped says in words what a worker's service network refused, "" if nothing.
func dropped(by map[string]uint64) string {
	why := map[string]string{
		"spoofed": "with a source that is not the sender's", "isolated": "to another application",
		"guarded": "to the machine",
		"outside": "from outside of the service network", "foreign": "from other workers for nobody here",
		"endless": "to services without an endpoint",
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		if n := by[reason]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, cmp.Or(why[reason], reason)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "packets since it started: " + strings.Join(parts, ", ")
}

func peerColumns() listing[rpc.NetPeer] {
	type view = rpc.NetPeer
	return listing[view]{kind: kindWorker, name: func(v view) string { return v.Cluster + "/" + v.Worker },
		columns: []column[view]{
			{name: "peer", cell: func(v view) cell { return text(v.Cluster + "/" + v.Worker) }},
			{name: "path", cell: func(v view) cell {
				if v.Path == wire.PathNone {
					return cell{v.Path, red}
				}
				return text(v.Path)
			}},
			{name: "via", cell: func(v view) cell { return text(v.Via) }},
			{name: "rtt", cell: func(v view) cell { return distanceCell(false, v.RTT, v.Source) }},
			{name: "from", cell: func(v view) cell {
				from := cmp.Or(v.Source, route.Unknown.String())
				if v.Over == rpc.OverTunnel {
					from += ", " + v.Over
				}
				return text(from)
			}},
			{name: "coordinate", wide: true, cell: func(v view) cell {
				if v.Estimate == 0 {
					return text("")
				}
				return text(milliseconds(time.Duration(v.Estimate)))
			}},
			{name: "address", wide: true, cell: func(v view) cell { return text(v.Address) }},
			{name: "message", cell: func(v view) cell { return problem(v.Why) }},
		}}
}
