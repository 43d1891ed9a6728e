package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cli/daemonflags"
	"github.com/verge-edge/verge/internal/doctor"
	"github.com/verge-edge/verge/internal/leftover"
	"github.com/verge-edge/verge/internal/wire"
)

func (a *app) doctorCommand() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check this machine: what will not work, why, and what to do",
		Long: "Checks this machine and the context in use. With a role and the flags that it is started with\n" +
			"(or its files), also what that role needs: verge doctor worker --data-dir /srv/verge",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return group(cmd, args)
			}
			found := append(doctor.Machine(a.opts.Now()), doctor.Leftovers(cmd.Context(), leftover.Options{})...)
			return a.findings(append(found, a.contextFindings(cmd.Context())...), mode)
		},
	}
	outputFlag(cmd, &mode, "table", "json", "yaml")
	for _, s := range a.daemonLine().Settings() {
		cmd.AddCommand(doctorFor(a, s))
	}
	return cmd
}

// doctorFor takes the flags of a role and looks at what it needs.
func doctorFor(a *app, r daemonflags.Settings) *cobra.Command {
	mode := ""
	r.Cmd.Short = "Check what verge " + r.Cmd.Name() + " needs on this machine"
	r.Cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		found := append(doctor.Machine(a.opts.Now()), doctor.Leftovers(cmd.Context(), leftover.Options{})...)
		if err := r.Settle(); err != nil {
			return err
		}
		n := doctor.Node{Role: cmd.Name(), Listen: map[string]string{}}
		for _, f := range daemonflags.SortedFlags(cmd) {
			switch f.Name {
			case "data-dir":
				n.Dir = f.Value.String()
			case "api", "link", "data", "gateway":
				n.Listen[f.Name] = f.Value.String()
			case "token-file":
				n.TokenFile = f.Value.String()
			case "root", "cluster":
				n.Peers, _ = daemonflags.TextOf(f).([]string)
			case "containerd":
				n.Containerd = f.Value.String()
			case "network":
				n.Network = f.Value.String()
			case "uplink":
				n.Uplink = f.Value.String()
			}
		}
		if f := cmd.Flags().Lookup("network"); f == nil || f.Value.String() == wire.NetworkLoopback {
			n.Uplink = ""
		}
		return a.findings(append(found, n.Look(cmd.Context(), a.opts.Now())...), mode)
	}
	outputFlag(r.Cmd, &mode, "table", "json", "yaml")
	return r.Cmd
}

// contextFindings looks at the context in use: whether its server answers, and how
// far apart the clocks are.
func (a *app) contextFindings(ctx context.Context) []doctor.Finding {
	const check = "context"
	e, path, err := a.findContext()
	if err != nil {
		return []doctor.Finding{{Check: check, Status: doctor.Note, Detail: firstLine(err),
			Remedy: "for the command line: verge context use FILE", Page: "docs/configuration.md#contexts"}}
	}
	c, err := client.New(e)
	if err != nil {
		return []doctor.Finding{{Check: check, Status: doctor.Fail, Detail: firstLine(err),
			Remedy: "take a new context file from the root or cluster", Page: "docs/configuration.md#contexts"}}
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	begin := a.opts.Now()
	st, err := c.System.Status(ctx)
	if err != nil {
		return []doctor.Finding{{Check: check, Status: doctor.Warn, Detail: path + ": " + firstLine(err),
			Remedy: "is it running, and reachable from here?", Page: "docs/configuration.md#ports"}}
	}
	now := a.opts.Now()
	found := []doctor.Finding{
		{Check: check, Status: doctor.OK, Detail: path + ": " + st.Role + " " + st.Name + " answers, version " +
			st.Version},
		doctor.Skew(st.Role+" "+st.Name, st.Time, now, now.Sub(begin)),
	}
	skewed := map[string]bool{}
	skew := func(node, than string, seconds float64) {
		if p := apiv1.SkewProblem(node, than, seconds); p != "" {
			skewed[p] = true
			found = append(found, doctor.Drift(node, than, seconds))
		}
	}
	for _, cl := range st.Clusters {
		skew("cluster "+cl.Name, "the root", cl.ClockSkewSeconds)
	}
	for _, w := range st.Workers {
		skew("worker "+w.Cluster+"/"+w.Name, "its cluster", w.ClockSkewSeconds)
	}
	for _, w := range st.Workers {
		found = append(found, doctor.Certificates(w.Cluster+"/"+w.Name, w.Published, now)...)
	}
	for _, p := range st.Problems {
		if skewed[p] || doctor.AboutCertificate(p) {
			continue // said already
		}
		found = append(found, doctor.Finding{Check: st.Role + " " + st.Name, Status: doctor.Warn, Detail: p,
			Remedy: "verge status", Page: "docs/metrics.md#health"})
	}
	return found
}

// findings prints them, and is an error if something does not work.
func (a *app) findings(found []doctor.Finding, mode string) error {
	worst := doctor.Worst(found)
	if mode != "table" {
		if err := a.encode(mode, struct {
			Worst    doctor.Status    `json:"worst"`
			Findings []doctor.Finding `json:"findings"`
		}{worst, found}); err != nil {
			return err
		}
	} else {
		paints := map[doctor.Status]colour{doctor.Warn: yellow, doctor.Fail: red}
		for _, f := range found {
			if err := a.printf("%s  %s: %s", a.paint(a.out, paints[f.Status], fmt.Sprintf("%-4s", f.Status)),
				clean(f.Check), clean(f.Detail)); err != nil {
				return err
			}
			if f.Remedy == "" {
				continue
			}
			if err := a.printf("      → %s (%s)", clean(f.Remedy), f.Page); err != nil {
				return err
			}
		}
	}
	if worst == doctor.Fail {
		return &userError{what: "doctor", why: "something here will not work", next: "see the lines that say fail"}
	}
	return nil
}
