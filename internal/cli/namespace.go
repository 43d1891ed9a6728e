package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

const quotaHelp = "bounds of what its applications ask for together, of cpu, memory, disk, instances and applications, and of its objects at the root"

func (a *app) namespaceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "namespace", Aliases: []string{"ns"}, Short: "Make, bound and remove namespaces", Args: cobra.ArbitraryArgs, RunE: group,
		Long: `Make, bound and remove namespaces.

Applications and secrets belong to a namespace, people have roles in it (verge
user), and a quota bounds what it asks for. The namespace "default" is always
there. A descriptor names its namespace; an application cannot change it.`,
	}
	bounds, mode := "", ""
	create := &cobra.Command{
		Use: "create NAME", Short: "Make a namespace", Args: oneArg("NAME"),
		Example: "  verge namespace create shop --quota cpu=4,memory=8Gi,instances=50",
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := parseQuota(bounds)
			if err != nil {
				return usageError(cmd, "--quota: %v", err)
			}
			return a.withClient(func(c *rest.Client) error {
				v, err := c.CreateNamespace(cmd.Context(), wire.NamespaceRequest{Name: args[0], Quota: q})
				if err != nil {
					return err
				}
				return a.printf("namespace/%s created", v.Name)
			})
		},
	}
	create.Flags().StringVar(&bounds, "quota", "", quotaHelp)
	quota := &cobra.Command{
		Use: "quota NAME [BOUNDS]", Short: "Show the quota of a namespace, or replace it", Args: cobra.RangeArgs(1, 2),
		Long: `Show the quota of a namespace and what it uses, or replace the quota: what is
not named is not bounded any more, and "none" removes all bounds. A quota may be
less than what is used; then nothing more is accepted until it fits again.`,
		Example: "  verge namespace quota shop\n  verge namespace quota shop cpu=8,memory=16Gi",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *rest.Client) error {
				if len(args) == 1 {
					return a.describeNamespace(cmd.Context(), c, args[0])
				}
				q, err := parseQuota(args[1])
				if err != nil {
					return usageError(cmd, "%v", err)
				}
				v, err := c.SetQuota(cmd.Context(), args[0], q)
				if err != nil {
					return err
				}
				return a.printf("namespace/%s has the quota %s", v.Name, quotaText(v.Quota))
			})
		},
	}
	ls := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the namespaces that you may see", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *rest.Client) error {
				return show(a, a.namespaces(), mode, "", false)(c.Namespaces(cmd.Context()))
			})
		},
	}
	outputFlag(ls, &mode, "table", "wide", "json", "yaml", "name")
	rm := &cobra.Command{
		Use: "rm NAME", Aliases: []string{"delete"}, Short: "Remove a namespace that nothing belongs to, and the roles in it", Args: oneArg("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *rest.Client) error {
				if err := c.RemoveNamespace(cmd.Context(), args[0]); err != nil {
					return err
				}
				return a.printf("namespace/%s removed", args[0])
			})
		},
	}
	cmd.AddCommand(create, ls, quota, rm)
	return cmd
}

// withClient runs f with a client of the chosen context.
func (a *app) withClient(f func(c *rest.Client) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

// parseQuota reads "cpu=4,memory=8Gi"; "" and "none" are no bounds.
func parseQuota(text string) (q wire.Quota, err error) {
	if text == "" || text == "none" {
		return q, nil
	}
	var seen []string
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return q, fmt.Errorf("%q is not of the form cpu=4,memory=8Gi,disk=20Gi,instances=50,applications=10", part)
		}
		if slices.Contains(seen, name) {
			return q, fmt.Errorf("%s is given twice", name)
		}
		seen = append(seen, name)
		if err := setBound(&q, name, value); err != nil {
			return q, fmt.Errorf("%s: %w", name, err)
		}
	}
	return q, nil
}

func setBound(q *wire.Quota, name, value string) (err error) {
	zero := false
	count := func(n *int) {
		if *n, err = strconv.Atoi(value); err == nil && (*n < 0 || *n > 1_000_000) {
			err = fmt.Errorf("%s is not between 1 and 1000000", value)
		} else if err != nil {
			err = fmt.Errorf("%q is not a whole number", value)
		}
		zero = *n == 0
	}
	switch name {
	case "cpu":
		err = q.CPU.UnmarshalText([]byte(value))
		zero = q.CPU == 0
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
		count(&q.Instances)
	case "applications":
		count(&q.Applications)
	default:
		return fmt.Errorf("nothing of that name can be bounded: it is one of cpu, memory, disk, objects, instances, applications")
	}
	if err == nil && zero {
		return fmt.Errorf("a bound of 0 is none: leave it out")
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
	add("objects", q.Objects > 0, q.Objects.String())
	add("instances", q.Instances > 0, strconv.Itoa(q.Instances))
	add("applications", q.Applications > 0, strconv.Itoa(q.Applications))
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ",")
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

func (a *app) namespaces() listing[wire.NamespaceView] {
	type view = wire.NamespaceView
	return listing[view]{kind: kindNamespace, name: func(v view) string { return v.Name }, columns: []column[view]{
		{name: "namespace", cell: func(v view) cell { return text(v.Name) }},
		{name: "applications", cell: func(v view) cell { return usedOf(v.Used.Applications, v.Quota.Applications, plainCount) }},
		{name: "instances", cell: func(v view) cell { return usedOf(v.Used.Instances, v.Quota.Instances, plainCount) }},
		{name: "cpu", cell: func(v view) cell { return usedOf(v.Used.CPU, v.Quota.CPU, cores) }},
		{name: "memory", cell: func(v view) cell { return usedOf(v.Used.Memory, v.Quota.Memory, size) }},
		{name: "disk", wide: true, cell: func(v view) cell { return usedOf(v.Used.Disk, v.Quota.Disk, size) }},
		{name: "objects", wide: true, cell: func(v view) cell { return usedOf(v.Used.Objects, v.Quota.Objects, size) }},
		{name: "created", wide: true, cell: func(v view) cell {
			if v.Created.IsZero() {
				return text("")
			}
			return text(a.since(v.Created))
		}},
		{name: "by", wide: true, cell: func(v view) cell { return text(v.By) }},
	}}
}

func (a *app) describeNamespace(ctx context.Context, c *rest.Client, name string) error {
	v, err := c.Namespace(ctx, name)
	if err != nil {
		return err
	}
	apps, err := c.Applications(ctx)
	if err != nil {
		return err
	}
	d := &details{}
	d.add("Namespace", v.Name)
	d.add("Created", a.moment(v.Created))
	d.add("By", v.By)
	d.add("Quota", quotaText(v.Quota))
	for _, line := range []struct {
		name string
		cell cell
	}{
		{"Applications", usedOf(v.Used.Applications, v.Quota.Applications, plainCount)},
		{"Instances", usedOf(v.Used.Instances, v.Quota.Instances, plainCount)},
		{"CPU", usedOf(v.Used.CPU, v.Quota.CPU, cores)},
		{"Memory", usedOf(v.Used.Memory, v.Quota.Memory, size)},
		{"Disk", usedOf(v.Used.Disk, v.Quota.Disk, size)},
		{"Objects", usedOf(v.Used.Objects, v.Quota.Objects, size)},
	} {
		d.add(line.name, line.cell.text)
	}
	if v.AtSites != (wire.Quota{}) {
		d.add("Of that at sites", quotaText(v.AtSites))
	}
	if err := d.print(a); err != nil {
		return err
	}
	if err := a.section("Applications"); err != nil {
		return err
	}
	apps = slices.DeleteFunc(apps, func(v wire.AppView) bool { return v.Namespace != name })
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
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "only of this namespace (default: that of the context)")
	cmd.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "of all namespaces that you may see")
}

// resolve takes the namespace of the context where none was given. What is asked
// for by its name is found in any.
func (f *namespaceFlags) resolve(a *app, name string) error {
	if f.namespace != "" && f.all {
		return &userError{what: "two namespaces are asked for", why: "--namespace " + f.namespace + " and --all-namespaces", next: "leave one of them out"}
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
