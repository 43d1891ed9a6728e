package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func (a *app) planCommand() *cobra.Command {
	mode, namespace := "", ""
	cmd := &cobra.Command{
		Use:   "plan FILE... | -",
		Short: "Show what applying descriptors would do",
		Long: `Show what applying descriptors would do, and change nothing.

The server applies the descriptor to a copy of its state and asks the clusters, which
do the same with their shares. So a plan shows which fields change, which changes
restart instances, where each instance would go, and which have no place. It assumes
that what starts becomes ready. With -o wide it shows the decisions, as verge explain.

Exit code 0: all would be placed; 1: it would be refused; 2: it would be accepted but
not fully placed.`,
		Example: "  verge plan guestbook.yaml\n  sed s/v1/v2/ app.yaml | verge plan -\n" +
			"  verge plan -n shop web.yaml db.yaml -o json",
		Args: filesArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := a.readDescriptors(args, namespace)
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error { return a.plan(cmd.Context(), c, list, mode, false) })
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", namespaceHelp)
	a.localFlag(cmd)
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml")
	return cmd
}

// plan says what applying list would do: for verge plan, or for apply --dry-run.
func (a *app) plan(ctx context.Context, c *client.Client, list []descriptorFile, mode string, dryRun bool) error {
	var outs []applyOutput
	var plans []apiv1.Plan
	for _, d := range list {
		p, err := c.Applications.Plan(ctx, d.source)
		if err != nil && len(list) > 1 {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		if err != nil {
			return err
		}
		a.warn(p.Warnings, d.warnings)
		plans = append(plans, p)
		outs = append(outs, applyOutput{ApplyResult: p.ApplyResult, DryRun: true, Plan: &p})
	}
	switch {
	case (mode == "json" || mode == "yaml") && dryRun:
		if err := a.encodeEach(mode, outs); err != nil {
			return err
		}
	case mode == "json" || mode == "yaml":
		var v any = plans[0]
		if len(plans) > 1 {
			v = struct {
				Items []apiv1.Plan `json:"items"`
			}{plans}
		}
		if err := a.encode(mode, v); err != nil {
			return err
		}
	case mode == "name":
		for _, p := range plans {
			if err := a.printf("application/%s", p.Name); err != nil {
				return err
			}
		}
	default:
		for n, p := range plans {
			if n > 0 {
				if err := a.printf(""); err != nil {
					return err
				}
			}
			if err := a.printPlan(p, mode, dryRun); err != nil {
				return err
			}
		}
	}
	return unplaced(plans)
}

// unplaced is the error for plans with instances that find no place.
func unplaced(plans []apiv1.Plan) error {
	n := 0
	why := ""
	for _, p := range plans {
		for _, i := range p.Instances {
			if i.Action == rpc.PlanWait {
				if n++; n <= 10 {
					why += fmt.Sprintf("\n  %s: %s", i.ID, cmp.Or(i.Why, "it waits"))
				}
			}
		}
	}
	if n == 0 {
		return nil
	}
	if n > 10 {
		why += fmt.Sprintf("\n  and %d more", n-10)
	}
	return &incompleteError{userError{what: "it would be accepted but not fully placed", why: instancesOf(n) + why,
		next: "make room, or ask for less; the decisions: verge plan -o wide"}}
}

func (a *app) printPlan(p apiv1.Plan, mode string, dryRun bool) error {
	would := "would be " + p.Change
	if dryRun {
		would += " (dry run)"
	}
	if err := a.printf("application/%s %s, revision %s", p.Name, would, revision(p.Revision)); err != nil {
		return err
	}
	if len(p.Services) > 0 {
		rows := make([][]cell, len(p.Services))
		for n, s := range p.Services {
			replicas := fmt.Sprint(s.To)
			if s.From != s.To {
				replicas = fmt.Sprintf("%d → %d", s.From, s.To)
			}
			rows[n] = []cell{text(s.Name), text(s.Change), text(replicas), text(s.Effect)}
		}
		if err := a.section("Services"); err != nil {
			return err
		}
		if err := a.table([]string{"SERVICE", "CHANGE", "REPLICAS", "EFFECT"}, rows); err != nil {
			return err
		}
	}
	if err := a.planFields(p); err != nil {
		return err
	}
	if err := a.planInstances(p, mode); err != nil {
		return err
	}
	var notes []string
	for _, s := range p.Sites {
		if !s.Asked {
			notes = append(notes, fmt.Sprintf("cluster %s gave no plan: %s. This is what the root knows of it; "+
				"last report: %s", s.Cluster, s.Why, agoOf(s.AgeSeconds)))
		}
	}
	if notes = append(notes, p.Notes...); len(notes) > 0 {
		if err := a.section("Notes"); err != nil {
			return err
		}
	}
	for _, n := range notes {
		if err := a.printf("%s", clean(n)); err != nil {
			return err
		}
	}
	placed := "all would be placed"
	if !p.Placed {
		placed = instancesOf(p.Waits) + " would wait"
	}
	restarts := count(p.Restarts, "restart")
	if p.Moves > 0 {
		restarts += fmt.Sprintf(" (%d elsewhere)", p.Moves)
	}
	return a.printf("\n%s, %s, %s, %s; %s", count(p.Changes, "change"), restarts, count(p.Starts, "start"),
		count(p.Stops, "stop"), placed)
}

// planFields lists what changes of the services that are there already.
func (a *app) planFields(p apiv1.Plan) error {
	var rows [][]cell
	for _, s := range p.Services {
		for _, f := range s.Fields {
			rows = append(rows, []cell{text(s.Name + "." + f.Field), text(cmp.Or(f.Old, "not set")),
				text(cmp.Or(f.New, "not set"))})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := a.section("Fields"); err != nil {
		return err
	}
	return a.table([]string{"FIELD", "IS", "WOULD BE"}, rows)
}

// planWords are what becomes of an instance, for people.
var planWords = map[string]string{
	rpc.PlanKeep: "runs on", rpc.PlanStart: "starts", rpc.PlanRestart: "restarts", rpc.PlanMove: "moves",
	rpc.PlanStop: "stops", rpc.PlanLater: "starts later", rpc.PlanWait: "waits",
}

// planInstances lists the instances that a plan changes.
func (a *app) planInstances(p apiv1.Plan, mode string) error {
	var rows [][]cell
	var lines []string
	for _, i := range p.Instances {
		if i.Action == rpc.PlanKeep && i.Why == "" {
			continue
		}
		place := i.To
		switch {
		case i.Action == rpc.PlanStop, i.To == "":
			place = i.From
		case i.From != "" && i.From != i.To:
			place = i.From + " → " + i.To
		}
		what := text(cmp.Or(planWords[i.Action], i.Action))
		if i.Action == rpc.PlanWait {
			what.colour = yellow
		}
		rows = append(rows, []cell{text(i.ID), what, text(place), text(i.Why)})
		if mode != "wide" {
			continue
		}
		for _, x := range i.Decisions {
			d, err := decisionOf(x)
			if err != nil {
				return err
			}
			lines = append(lines, "", fmt.Sprintf("instance/%s, %s would decide:", i.ID, x.Tier))
			lines = append(lines, decisionLines(d)...)
		}
	}
	if len(rows) > 0 {
		if err := a.section("Instances"); err != nil {
			return err
		}
		if err := a.table([]string{"INSTANCE", "WHAT", "WHERE", "WHY"}, rows); err != nil {
			return err
		}
	}
	if len(lines) > 0 {
		return a.printf("%s", cleanLines(strings.Join(lines, "\n")))
	}
	return nil
}
