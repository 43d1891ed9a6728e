package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/apiv1"
)

// What the interface accepts.
const (
	maxTokenTTL  = 30 * 24 * time.Hour
	maxTokenUses = 100_000
)

type tokenFlags struct {
	cluster     string
	plugin      string
	worker, api bool
	gateway     bool
	uses        int
	ttl         time.Duration
	mode        string
}

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Create, list and revoke tokens", Args: cobra.ArbitraryArgs, RunE: group}
	var f tokenFlags
	create := &cobra.Command{
		Use:   "create --cluster NAME | --worker | --plugin NAME | --api",
		Short: "Create a token to join as a cluster, worker or plugin, or to use the API",
		Long: `Create a token to join as a cluster (at the root), to join as a worker or as a scheduler
plugin on the bus (at its cluster), or for a program to use the HTTP interface. It is
printed once and stored only as a hash.`,
		Example: "  verge token create --cluster edge > edge.token",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.request(cmd)
			if err != nil {
				return err
			}
			return a.createToken(cmd.Context(), r, f.mode)
		},
	}
	create.Flags().StringVar(&f.cluster, "cluster", "", "to join as the cluster of this name")
	create.Flags().BoolVar(&f.worker, "worker", false, "to join as a worker of this cluster")
	create.Flags().StringVar(&f.plugin, "plugin", "",
		"to join the bus of this cluster as the scheduler plugin of this name")
	create.Flags().BoolVar(&f.gateway, "gateway", false,
		"with --worker: allow it to be a gateway with TLS, which gets the certificates and keys of hosts")
	create.Flags().IntVar(&f.uses, "uses", 1, "with --worker: how many workers may join with it")
	create.Flags().BoolVar(&f.api, "api", false, "to use the HTTP interface")
	create.Flags().DurationVar(&f.ttl, "ttl", 0, "valid for this long (default 1h; with --api 720h)")
	outputFlag(create, &f.mode, "table", "json", "yaml")
	cmd.AddCommand(create, a.tokenLsCommand(), a.tokenRevokeCommand())
	return cmd
}

func (f *tokenFlags) request(cmd *cobra.Command) (apiv1.TokenRequest, error) {
	var kinds []string
	if f.cluster != "" {
		kinds = append(kinds, "cluster")
	}
	if f.worker {
		kinds = append(kinds, "worker")
	}
	if f.plugin != "" {
		kinds = append(kinds, "plugin")
	}
	if f.api {
		kinds = append(kinds, "api")
	}
	if len(kinds) != 1 {
		return apiv1.TokenRequest{}, usageError(cmd, "give one of --cluster NAME, --worker, --plugin NAME and --api")
	}
	if f.gateway && !f.worker {
		return apiv1.TokenRequest{}, usageError(cmd, "--gateway goes with --worker")
	}
	if f.uses != 1 && (!f.worker || f.gateway) {
		return apiv1.TokenRequest{}, usageError(cmd, "--uses goes with --worker, and not with --gateway")
	}
	if f.uses < 1 || f.uses > maxTokenUses {
		return apiv1.TokenRequest{}, usageError(cmd, "--uses %d is not between 1 and %d", f.uses, maxTokenUses)
	}
	if f.ttl < 0 || f.ttl > maxTokenTTL || f.ttl%time.Second != 0 {
		return apiv1.TokenRequest{},
			usageError(cmd, "--ttl %s is not whole seconds between 1s and %s", f.ttl, maxTokenTTL)
	}
	r := apiv1.TokenRequest{Kind: kinds[0], Cluster: f.cluster, Plugin: f.plugin, Gateway: f.gateway,
		TTLSeconds: int(f.ttl / time.Second)}
	if f.uses > 1 {
		r.Uses = f.uses // an older server knows no more than one
	}
	return r, nil
}

func (a *app) createToken(ctx context.Context, r apiv1.TokenRequest, mode string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	t, err := c.Tokens.Create(ctx, r)
	if err != nil {
		return err
	}
	if mode != "table" {
		return a.encode(mode, t)
	}
	if err := a.printf("%s", t.Token); err != nil {
		return err
	}
	a.notef("valid until %s (%s)", t.Expires.In(a.opts.Now().Location()).Format(time.RFC3339),
		age(t.Expires.Sub(a.opts.Now())))
	switch r.Kind {
	case "api":
		if t.ID != "" {
			a.notef("to revoke it: verge token revoke %s", clean(t.ID))
		}
	case "cluster":
		a.notef("next, on the cluster's machine: verge cluster --name %s --token-file FILE", r.Cluster)
	case "plugin":
		a.notef("next, where the plugin runs: verge plugin join --token-file FILE --dir DIR")
	case "worker":
		if r.Uses > 1 {
			a.notef("%d workers may join with it: guard it like %d tokens", r.Uses, r.Uses)
		}
		if r.Gateway {
			a.notef("next, on the gateway's machine: verge worker --token-file FILE --gateway :8480 " +
				"--gateway-tls :8443")
			return nil
		}
		a.notef("next, on the worker's machine: verge worker --token-file FILE")
	}
	return nil
}
