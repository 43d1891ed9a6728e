package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/policy/quota"
	"github.com/verge-edge/verge/internal/policy/standing"
	"github.com/verge-edge/verge/internal/policy/standing/publish"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	quotaHelp = "limits of what its applications ask for together: cpu, memory, disk, vgpus, vtpus, bandwidth-in, " +
		"bandwidth-out, instances, applications, device.TYPE (device.camera=2), and objects at the root"

	standingHelp = "what it may claim: weight=N of its share, max-priority=N against other namespaces, allow=RIGHTS " +
		"of its instances, hosts=NAMES and ports=PORTS that it may publish"
)

func (a *app) namespaceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "namespace", Aliases: []string{"ns"}, Short: "Create, limit and remove namespaces",
		Args: cobra.ArbitraryArgs, RunE: group,
		Long: `Create, limit and remove namespaces.

Applications and secrets belong to a namespace, people have roles in it (verge user),
and a quota limits what it asks for. The namespace "default" always exists. A
descriptor names its namespace; an application cannot change it.`,
	}
	bounds, claims, mode := "", "", ""
	create := &cobra.Command{
		Use: "create NAME", Short: "Create a namespace", Args: oneArg("NAME"),
		Example: "  verge namespace create shop --quota cpu=4,memory=8Gi,instances=50",
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := parseQuota(bounds)
			if err != nil {
				return usageError(cmd, "--quota: %v", err)
			}
			st, err := parseStanding(claims)
			if err != nil {
				return usageError(cmd, "--standing: %v", err)
			}
			return a.withClient(func(c *client.Client) error {
				v, err := c.Namespaces.Create(cmd.Context(),
					apiv1.NamespaceRequest{Name: args[0], Quota: q, Standing: st})
				if err != nil {
					return err
				}
				return a.printf("namespace/%s created", v.Name)
			})
		},
	}
	create.Flags().StringVar(&bounds, "quota", "", quotaHelp)
	create.Flags().StringVar(&claims, "standing", "", standingHelp)
	bound := &cobra.Command{
		Use: "quota NAME [LIMITS]", Short: "Show or replace the quota of a namespace", Args: cobra.RangeArgs(1, 2),
		Long: `Show the quota of a namespace and its use, or replace the quota: resources left out
become unlimited, and "none" removes all limits. A quota may be below what is used;
then nothing more is accepted until it fits again.`,
		Example: "  verge namespace quota shop\n  verge namespace quota shop cpu=8,memory=16Gi",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				if len(args) == 1 {
					return a.describeNamespace(cmd.Context(), c, args[0])
				}
				q, err := parseQuota(args[1])
				if err != nil {
					return usageError(cmd, "%v", err)
				}
				v, err := c.Namespaces.SetQuota(cmd.Context(), args[0], q)
				if err != nil {
					return err
				}
				return a.printf("namespace/%s has the quota %s", v.Name, quotaText(v.Quota))
			})
		},
	}
	standing := &cobra.Command{
		Use: "standing NAME [CLAIMS]", Short: "Show or replace what a namespace may claim", Args: cobra.RangeArgs(1, 2),
		Long: `Show or replace what a namespace may claim. Claims left out get their defaults, and
"none" resets all of them.

weight=N (1 to 1000, default 1): where services compete (drf), it is due N times the
share of a namespace with weight 1.

max-priority=N (1 to 1000): its services may have priorities up to N, which count
against those of other namespaces. By default they may have any, which counts within
the namespace alone.

allow=RIGHTS: what its instances may ask for, joined by +; default writable-root.
For containers (security): writable-root, new-privileges, no-seccomp, capabilities
(NET_RAW), or all of these with all. For processes (user): host-root, to run as root
of the worker's machine, or host-user, to run as another user of it; the worker must
allow that user too (verge worker --allow-host-user). none allows nothing. Running
instances keep what they have.

hosts=NAMES: the hosts that its services may publish at gateways, joined by +.
shop.example is that name, *.shop.example every name below it, any every free host,
none nothing. A named host is reserved for the namespace. The default is any, which
excludes localhost: hosts=any+localhost has both. Published hosts stay published.

ports=PORTS: likewise for the tcp and udp ports of the gateways: 5432/tcp+6000-6099.`,
		Example: "  verge namespace standing shop\n  verge namespace standing shop weight=3,max-priority=100\n" +
			"  verge namespace standing shop allow=writable-root+NET_RAW\n" +
			"  verge namespace standing infra allow=writable-root+host-root\n" +
			"  verge namespace standing shop hosts=shop.example+*.shop.example",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				if len(args) == 1 {
					return a.describeNamespace(cmd.Context(), c, args[0])
				}
				st, err := parseStanding(args[1])
				if err != nil {
					return usageError(cmd, "%v", err)
				}
				v, err := c.Namespaces.SetStanding(cmd.Context(), args[0], st)
				if err != nil {
					return err
				}
				if err := a.printf("namespace/%s has the standing %s", v.Name, standingText(v.Standing)); err != nil {
					return err
				}
				for _, u := range v.Unallowed {
					a.notef("it keeps publishing these, without a new certificate by ACME: %s", clean(u))
				}
				return nil
			})
		},
	}
	ls := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the namespaces that you may see", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *client.Client) error {
				return show(a, a.namespaces(), mode, "", false)(c.Namespaces.List(cmd.Context()))
			})
		},
	}
	outputFlag(ls, &mode, "table", "wide", "json", "yaml", "name")
	rm := &cobra.Command{
		Use: "rm NAME", Aliases: []string{"delete"}, Short: "Remove an empty namespace and its roles",
		Args: oneArg("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				if err := c.Namespaces.Remove(cmd.Context(), args[0]); err != nil {
					return err
				}
				return a.printf("namespace/%s removed", args[0])
			})
		},
	}
	cmd.AddCommand(create, ls, bound, standing, rm)
	return cmd
}

// withClient runs f with a client of the chosen context.
func (a *app) withClient(f func(c *client.Client) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

// parseQuota reads "cpu=4,memory=8Gi"; "" and "none" are no bounds.
func parseQuota(text string) (q wire.Quota, err error) {
	err = parsePairs(text, "cpu=4,memory=8Gi,disk=20Gi,instances=50,applications=10",
		func(name, value string) error { return setBound(&q, name, value) })
	return q, err
}

// parseStanding reads "weight=3,max-priority=100"; "" and "none" are what is without.
func parseStanding(text string) (s wire.Standing, err error) {
	err = parsePairs(text, "weight=3,max-priority=100,allow=NET_RAW", func(name, value string) error {
		switch name {
		case "weight":
			return setCount(&s.Weight, value, wire.MaxWeight)
		case "max-priority":
			return setCount(&s.MaxPriority, value, api.MaxPriority)
		case "allow":
			if s.Allow, err = standing.ParseAllow(value); err == nil && s.Allow == "" {
				err = errors.New("it is empty: write none, or leave it out")
			}
			return err
		case "hosts":
			s.Hosts, err = publish.ParseHosts(value)
			return err
		case "ports":
			s.Ports, err = publish.ParsePorts(value)
			return err
		}
		return fmt.Errorf("unknown claim: it is one of weight, max-priority, allow, hosts, ports")
	})
	return s, err
}

// parsePairs parses a list such as the example; "" and "none" are empty.
func parsePairs(text, example string, set func(name, value string) error) error {
	if text == "" || text == "none" {
		return nil
	}
	var seen []string
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return fmt.Errorf("%q is not of the form %s", part, example)
		}
		if slices.Contains(seen, name) {
			return fmt.Errorf("%s is given twice", name)
		}
		seen = append(seen, name)
		if err := set(name, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// setCount reads a whole number from 1 to most.
func setCount(n *int, value string, most int) (err error) {
	if *n, err = strconv.Atoi(value); err != nil {
		return fmt.Errorf("%q is not a whole number", value)
	}
	if *n < 1 || *n > most {
		return fmt.Errorf("%s is not between 1 and %d: leave it out for none", value, most)
	}
	return nil
}

func setBound(q *wire.Quota, name, value string) (err error) {
	zero := false
	if kind, ok := strings.CutPrefix(name, quota.Device); ok {
		n := 0
		if err := setCount(&n, value, wire.MaxQuotaCount); err != nil {
			return err
		}
		if q.Devices == nil {
			q.Devices = map[string]int{}
		}
		q.Devices[kind] = n
		if err := quota.Check(wire.Quota{Devices: map[string]int{kind: n}}); err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), name+": "))
		}
		return nil
	}
	switch name {
	case "cpu":
		err = q.CPU.UnmarshalText([]byte(value))
		zero = q.CPU == 0
	case "vgpus":
		err = q.VGPUs.UnmarshalText([]byte(value))
		zero = q.VGPUs == 0
	case "vtpus":
		err = q.VTPUs.UnmarshalText([]byte(value))
		zero = q.VTPUs == 0
	case "bandwidth-in":
		err = q.BandwidthIn.UnmarshalText([]byte(value))
		zero = q.BandwidthIn == 0
	case "bandwidth-out":
		err = q.BandwidthOut.UnmarshalText([]byte(value))
		zero = q.BandwidthOut == 0
	case "memory":
		err = q.Memory.UnmarshalText([]byte(value))
		zero = q.Memory == 0
	case "disk":
		err = q.Disk.UnmarshalText([]byte(value))
		zero = q.Disk == 0
	case "objects":
		err = q.Objects.UnmarshalText([]byte(value))
		zero = q.Objects == 0
	case "instances":
		err = setCount(&q.Instances, value, wire.MaxQuotaCount)
	case "applications":
		err = setCount(&q.Applications, value, wire.MaxQuotaCount)
	default:
		return fmt.Errorf("unknown limit: it is one of cpu, memory, disk, vgpus, vtpus, bandwidth-in, bandwidth-out, " +
			"objects, instances, applications, device.TYPE")
	}
	if err == nil && zero {
		return fmt.Errorf("0 means no limit: leave it out")
	}
	return err
}

// quotaText is how parseQuota reads it.
func quotaText(q wire.Quota) string {
	var parts []string
	add := func(name string, has bool, text string) {
		if has {
			parts = append(parts, name+"="+text)
		}
	}
	add("cpu", q.CPU > 0, q.CPU.String())
	add("memory", q.Memory > 0, q.Memory.String())
	add("disk", q.Disk > 0, q.Disk.String())
	add("vgpus", q.VGPUs > 0, q.VGPUs.String())
	add("vtpus", q.VTPUs > 0, q.VTPUs.String())
	add("bandwidth-in", q.BandwidthIn > 0, q.BandwidthIn.String())
	add("bandwidth-out", q.BandwidthOut > 0, q.BandwidthOut.String())
	add("objects", q.Objects > 0, q.Objects.String())
	add("instances", q.Instances > 0, strconv.Itoa(q.Instances))
	add("applications", q.Applications > 0, strconv.Itoa(q.Applications))
	for _, kind := range slices.Sorted(maps.Keys(q.Devices)) {
		add(quota.Device+kind, true, strconv.Itoa(q.Devices[kind]))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ",")
}

// devicesText writes the devices that a namespace asks for, with what it may.
func devicesText(v apiv1.NamespaceView) cell {
	kinds := map[string]bool{}
	for _, q := range []wire.Quota{v.Used, v.Quota} {
		for kind := range q.Devices {
			kinds[kind] = true
		}
	}
	out := cell{}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		c := usedOf(v.Used.Devices[kind], v.Quota.Devices[kind], plainCount)
		if out.text != "" {
			out.text += ", "
		}
		out.text += clean(kind) + " " + c.text
		if c.colour == red {
			out.colour = red
		}
	}
	return out
}

// standingText is how parseStanding reads it, with the weight that counts.
func standingText(s wire.Standing) string {
	return s.String()
}

// usedOf writes "used/bound", or "used" where there is no bound.
func usedOf[T ~int | ~int64](used, bound T, text func(T) string) cell {
	if bound == 0 {
		return cell{text: text(used)}
	}
	c := cell{text: text(used) + "/" + text(bound)}
	if used > bound {
		c.colour = red
	}
	return c
}

func plainCount(n int) string { return strconv.Itoa(n) }

func (a *app) namespaces() listing[apiv1.NamespaceView] {
	type view = apiv1.NamespaceView
	return listing[view]{kind: kindNamespace, name: func(v view) string { return v.Name }, columns: []column[view]{
		{name: "namespace", cell: func(v view) cell { return text(v.Name) }},
		{name: "applications", cell: func(v view) cell {
			return usedOf(v.Used.Applications, v.Quota.Applications,
				plainCount)
		}},
		{name: "instances", cell: func(v view) cell { return usedOf(v.Used.Instances, v.Quota.Instances, plainCount) }},
		{name: "cpu", cell: func(v view) cell { return usedOf(v.Used.CPU, v.Quota.CPU, cores) }},
		{name: "memory", cell: func(v view) cell { return usedOf(v.Used.Memory, v.Quota.Memory, size) }},
		{name: "disk", wide: true, cell: func(v view) cell { return usedOf(v.Used.Disk, v.Quota.Disk, size) }},
		{name: "vgpus", wide: true,
			cell: func(v view) cell { return usedOf(v.Used.VGPUs, v.Quota.VGPUs, api.Units.String) }},
		{name: "vtpus", wide: true,
			cell: func(v view) cell { return usedOf(v.Used.VTPUs, v.Quota.VTPUs, api.Units.String) }},
		{name: "devices", wide: true, cell: devicesText},
		{name: "bandwidth in", wide: true,
			cell: func(v view) cell { return usedOf(v.Used.BandwidthIn, v.Quota.BandwidthIn, api.Bitrate.String) }},
		{name: "bandwidth out", wide: true,
			cell: func(v view) cell { return usedOf(v.Used.BandwidthOut, v.Quota.BandwidthOut, api.Bitrate.String) }},
		{name: "objects", wide: true, cell: func(v view) cell { return usedOf(v.Used.Objects, v.Quota.Objects, size) }},
		{name: "standing", wide: true, cell: func(v view) cell { return text(standingText(v.Standing)) }},
		{name: "created", wide: true, cell: func(v view) cell {
			if v.Created.IsZero() {
				return text("")
			}
			return text(a.since(v.Created))
		}},
		{name: "by", wide: true, cell: func(v view) cell { return text(v.By) }},
	}}
}

func (a *app) describeNamespace(ctx context.Context, c *client.Client, name string) error {
	v, err := c.Namespaces.Get(ctx, name)
	if err != nil {
		return err
	}
	apps, err := c.Applications.List(ctx)
	if err != nil {
		return err
	}
	d := &details{}
	d.add("Namespace", v.Name)
	d.add("Created", a.moment(v.Created))
	d.add("By", v.By)
	d.add("Quota", quotaText(v.Quota))
	d.add("Standing", standingText(v.Standing))
	for _, line := range []struct {
		name string
		cell cell
		none bool // nobody asks for it, nor bounds it: most have none
	}{
		{"Applications", usedOf(v.Used.Applications, v.Quota.Applications, plainCount), false},
		{"Instances", usedOf(v.Used.Instances, v.Quota.Instances, plainCount), false},
		{"CPU", usedOf(v.Used.CPU, v.Quota.CPU, cores), false},
		{"Memory", usedOf(v.Used.Memory, v.Quota.Memory, size), false},
		{"Disk", usedOf(v.Used.Disk, v.Quota.Disk, size), false},
		{"vGPUs", usedOf(v.Used.VGPUs, v.Quota.VGPUs, api.Units.String), v.Used.VGPUs+v.Quota.VGPUs == 0},
		{"vTPUs", usedOf(v.Used.VTPUs, v.Quota.VTPUs, api.Units.String), v.Used.VTPUs+v.Quota.VTPUs == 0},
		{"Devices", devicesText(v), len(v.Used.Devices)+len(v.Quota.Devices) == 0},
		{"Bandwidth in", usedOf(v.Used.BandwidthIn, v.Quota.BandwidthIn, api.Bitrate.String),
			v.Used.BandwidthIn+v.Quota.BandwidthIn == 0},
		{"Bandwidth out", usedOf(v.Used.BandwidthOut, v.Quota.BandwidthOut, api.Bitrate.String),
			v.Used.BandwidthOut+v.Quota.BandwidthOut == 0},
		{"Objects", usedOf(v.Used.Objects, v.Quota.Objects, size), false},
	} {
		if !line.none {
			d.add(line.name, line.cell.text)
		}
	}
	for _, u := range v.Unallowed {
		d.add("No longer allowed", clean(u))
	}
	if !v.AtSites.IsZero() {
		d.add("Of that at sites", quotaText(v.AtSites))
	}
	for _, s := range v.Shares {
		d.add("Share of "+s.Cluster,
			fmt.Sprintf("%s, by weight %.3g %%", shareText(s.Share, s.Resource),
				100*s.Share/float64(max(1, v.Standing.Weight))))
	}
	if err := d.print(a); err != nil {
		return err
	}
	if err := a.section("Applications"); err != nil {
		return err
	}
	apps = slices.DeleteFunc(apps, func(v apiv1.AppView) bool { return v.Namespace != name })
	if len(apps) == 0 {
		return a.printf("none")
	}
	return a.applications().print(a, "table", apps, false)
}

// namespaceFlags choose the namespace that a list is of.
type namespaceFlags struct {
	namespace string
	all       bool
}

func (f *namespaceFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "only this namespace (default: that of the context)")
	cmd.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "all namespaces that you may see")
}

// resolve takes the namespace of the context where none was given. What is asked
// for by its name is found in any.
func (f *namespaceFlags) resolve(a *app, name string) error {
	if f.namespace != "" && f.all {
		return &userError{what: "give one namespace, or all",
			why: "--namespace " + f.namespace + " and --all-namespaces", next: "remove one of them"}
	}
	if f.namespace != "" || f.all || name != "" {
		return nil
	}
	e, _, err := a.findContext()
	f.namespace = e.Namespace
	return err
}

// within are those of list that are in a namespace; "" is all.
func within[T any](namespace string, list []T, of func(T) string) []T {
	if namespace == "" {
		return list
	}
	return slices.DeleteFunc(list, func(v T) bool { return cmp.Or(of(v), api.DefaultNamespace) != namespace })
}
