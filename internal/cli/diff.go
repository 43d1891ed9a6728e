package cli

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/policy/plan"
)

// diffOutput is what verge diff says of one file.
type diffOutput struct {
	Application string              `json:"application"`
	Revision    uint64              `json:"revision"` // that it is compared with; 0: there is none
	Services    []apiv1.ServicePlan `json:"services"`
}

func (a *app) diffCommand() *cobra.Command {
	mode, namespace, number := "", "", uint64(0)
	cmd := &cobra.Command{
		Use:   "diff FILE... | -",
		Short: "Compare descriptors with the current ones, field by field",
		Long: `Compare descriptors with the current ones, field by field.

Fields that the files omit are compared as their defaults. Values of env may be
secret and are not shown. verge plan shows what applying the files would do.

Exit code 0: no difference; 1: a difference; 2: an error.`,
		Example: "  verge diff shop.yaml\n  verge diff shop.yaml --revision 3\n  verge diff -o json web.yaml db.yaml",
		Args:    func(cmd *cobra.Command, args []string) error { return trouble(filesArgs(cmd, args)) },
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := a.readDescriptors(args, namespace)
			if err != nil {
				return trouble(err)
			}
			return trouble(a.withClient(func(c *client.Client) error {
				return a.diff(cmd.Context(), c, list, number,
					mode)
			}))
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return trouble(usageError(cmd, "%v", err)) })
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", namespaceHelp)
	cmd.Flags().Uint64Var(&number, "revision", 0,
		"compare with this revision (verge rollout history) instead of the current one")
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

// troubleError is an error of a command whose exit code 1 says something else.
type troubleError struct{ error }

func (e *troubleError) Unwrap() error { return e.error }

// trouble is err as such an error.
func trouble(err error) error {
	var differs *remoteExit
	if err == nil || errors.As(err, &differs) {
		return err
	}
	return &troubleError{err}
}

func (a *app) diff(ctx context.Context, c *client.Client, list []descriptorFile, number uint64, mode string) error {
	var outs []diffOutput
	differs := false
	for _, d := range list {
		o, err := compare(ctx, c, d, number)
		if err != nil {
			return err
		}
		for _, s := range o.Services {
			differs = differs || s.Change != apiv1.ServiceUnchanged
		}
		outs = append(outs, o)
	}
	var err error
	switch {
	case (mode == "json" || mode == "yaml") && len(outs) == 1:
		err = a.encode(mode, outs[0])
	case mode == "json" || mode == "yaml":
		err = a.encode(mode, struct {
			Items []diffOutput `json:"items"`
		}{outs})
	default:
		err = a.printDiffs(outs)
	}
	switch {
	case err != nil:
		return err
	case differs:
		return &remoteExit{code: exitError} // it has been said
	}
	return nil
}

// compare a descriptor with what its application is, or was.
func compare(ctx context.Context, c *client.Client, d descriptorFile, number uint64) (o diffOutput, err error) {
	next, _, err := descriptor.Parse(d.name, d.source)
	if err != nil {
		return o, err
	}
	o.Application = next.Application
	var text string
	if number > 0 {
		r, err := c.Rollouts.Revision(ctx, next.Application, number)
		if err != nil {
			return o, err
		}
		o.Revision, text = r.Revision, r.Descriptor
	} else {
		v, err := c.Applications.Get(ctx, next.Application)
		if err != nil && !notFound(err) {
			return o, err
		}
		o.Revision, text = v.Revision, v.Descriptor
	}
	var old *api.Application
	if text != "" {
		if old, _, err = descriptor.Parse("the current descriptor", []byte(text)); err != nil {
			return o, err
		}
	}
	o.Services = plan.Services(old, next)
	return o, nil
}

func (a *app) printDiffs(outs []diffOutput) error {
	var rows [][]cell
	for _, o := range outs {
		for _, s := range o.Services {
			at := o.Application + "." + s.Name
			switch s.Change {
			case apiv1.ServiceAdded:
				rows = append(rows, []cell{text(at), text("no service"), text("added")})
			case apiv1.ServiceRemoved:
				rows = append(rows, []cell{text(at), text("there"), text("removed")})
			}
			for _, f := range s.Fields {
				rows = append(rows, []cell{text(at + "." + f.Field), text(cmp.Or(f.Old, "not set")),
					text(cmp.Or(f.New, "not set"))})
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return a.table([]string{"FIELD", "IS", "WOULD BE"}, rows)
}
