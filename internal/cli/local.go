package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/wire"
)

// localFlag adds --local to a command that changes something.
func (a *app) localFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.local, "local", false, "at a cluster whose root is connected: change this site only")
}

func (a *app) localCommand() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Show changes made at sites without the root, and conflicts",
		Long: `Show changes made at sites without the root, and conflicts.

With a context of a cluster, apply, scale and delete change what runs at that site
while the root is away. Such a change applies until the root says something new
about the same service. Then the root's applies, and the change becomes a
conflict, which is kept until somebody acknowledges it.`,
		Example: "  verge local\n  verge local drop shop.web\n  verge local ack 7",
		Args:    cobra.ArbitraryArgs,
	}
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return group(c, args)
		}
		return a.listLocal(c.Context(), mode)
	}
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml", "name")
	cmd.AddCommand(a.dropCommand(), a.ackCommand())
	return cmd
}

func (a *app) listLocal(ctx context.Context, mode string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	v, err := c.LocalChanges.List(ctx)
	if err != nil {
		return err
	}
	if mode == "json" || mode == "yaml" {
		return a.encode(mode, v)
	}
	if mode == "name" {
		for _, l := range v.Changes {
			if err := a.printf("local/%s", clean(l.Key())); err != nil {
				return err
			}
		}
		for _, x := range v.Conflicts {
			if err := a.printf("conflict/%s", clean(x.ID)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(v.Changes)+len(v.Conflicts) == 0 {
		a.notef("no changes at sites")
		return nil
	}
	if len(v.Changes) > 0 {
		if err := a.localTable(v.Changes); err != nil {
			return err
		}
	}
	if len(v.Conflicts) == 0 {
		return nil
	}
	if len(v.Changes) > 0 {
		if err := a.printf(""); err != nil {
			return err
		}
	}
	return a.conflictTable(v.Conflicts)
}

func (a *app) localTable(list []wire.LocalChange) error {
	rows := make([][]cell, len(list))
	for i, l := range list {
		rows[i] = []cell{text(l.Key()), text(l.Cluster), text(l.Change), text(l.By), text(a.since(l.At)),
			text(revision(l.Base))}
	}
	return a.table([]string{"SERVICE", "CLUSTER", "LOCAL CHANGE", "BY", "AGE", "ON REVISION"}, rows)
}

func (a *app) conflictTable(list []wire.Conflict) error {
	rows := make([][]cell, len(list))
	for i, x := range list {
		rows[i] = []cell{{x.ID, yellow}, text(x.Key()), text(x.Cluster), text(x.Change), text(x.By),
			text(a.since(x.At)), text(x.Root), text(a.since(x.Found))}
	}
	return a.table([]string{"CONFLICT", "SERVICE", "CLUSTER", "LOCAL CHANGE", "BY", "AGE", "OVERRIDDEN BY THE ROOT'S",
		"FOUND"}, rows)
}

// localSections show what was changed at sites about what is described.
func (a *app) localSections(changes []wire.LocalChange, conflicts []wire.Conflict) error {
	if len(changes) > 0 {
		if err := a.section("Changed at sites, without the root"); err != nil {
			return err
		}
		if err := a.localTable(changes); err != nil {
			return err
		}
	}
	if len(conflicts) > 0 {
		if err := a.section("Conflicts: local changes that the root overrode (verge local ack ID, at " +
			"their cluster)"); err != nil {
			return err
		}
		return a.conflictTable(conflicts)
	}
	return nil
}

// revision writes the number of a revision; those of a site are counted apart.
func revision(n uint64) string {
	switch {
	case n == 0:
		return ""
	case n >= wire.LocalRevisions:
		return fmt.Sprintf("local %d", n-wire.LocalRevisions)
	}
	return fmt.Sprint(n)
}

func (a *app) dropCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "drop APPLICATION[.SERVICE]",
		Short: "Drop local changes: the root's version applies again, and services that it does not know end",
		Args:  oneArg("APPLICATION or APPLICATION.SERVICE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.TrimPrefix(strings.TrimPrefix(args[0], kindApplication+"/"), kindService+"/")
			app, service, _ := strings.Cut(name, ".")
			if app == "" || strings.ContainsAny(name, "/") {
				return usageError(cmd, "%q is not APPLICATION or APPLICATION.SERVICE", args[0])
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.LocalChanges.Drop(cmd.Context(), app, service); err != nil {
				return err
			}
			return a.printf("local changes of %s dropped", name)
		},
	}
}

func (a *app) ackCommand() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "ack ID... | --all",
		Short: "Acknowledge conflicts",
		Args: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == !all {
				return usageError(cmd, "give the IDs of conflicts, or --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			if all {
				v, err := c.LocalChanges.List(cmd.Context())
				if err != nil {
					return err
				}
				for _, x := range v.Conflicts {
					args = append(args, x.ID)
				}
			}
			for _, id := range args {
				if err := c.LocalChanges.Acknowledge(cmd.Context(), strings.TrimPrefix(id, "conflict/")); err != nil {
					return err
				}
				if err := a.printf("conflict %s acknowledged", id); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all conflicts")
	return cmd
}
