package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
)

func (a *app) tokenLsCommand() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List tokens", Args: noArgs,
		Long: `List the tokens of the root or cluster of the context, to join and for programs,
without their secrets. Expired ones are shown for some days. For users' tokens, see
verge user ls.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *client.Client) error {
				all, err := c.Tokens.List(cmd.Context())
				for _, v := range all {
					a.trouble(v.Problem)
				}
				return show(a, a.tokens(), mode, "", false)(all, err)
			})
		},
	}
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

// tokenFor says what a token is good for.
func tokenFor(v apiv1.TokenView) string {
	switch v.Kind {
	case "cluster":
		return "joining as cluster " + v.Cluster
	case "worker":
		if v.Gateway {
			return "joining as a worker that may be a gateway"
		}
		if v.Uses > 1 {
			return fmt.Sprintf("joining as a worker, %d of %d did", v.Joined, v.Uses)
		}
		return "joining as a worker"
	case "plugin":
		return "being plugin " + v.Plugin
	case "api":
		return "the API"
	}
	return v.Kind
}

func (a *app) tokens() listing[apiv1.TokenView] {
	type view = apiv1.TokenView
	return listing[view]{kind: "token", name: func(v view) string { return v.ID }, columns: []column[view]{
		{name: "token", cell: func(v view) cell { return text(v.ID) }},
		{name: "for", cell: func(v view) cell { return text(tokenFor(v)) }},
		{name: "by", cell: func(v view) cell { return text(v.By) }},
		{name: "state", cell: func(v view) cell {
			left := v.Expires.Sub(a.opts.Now())
			switch {
			case v.Problem != "":
				return cell{"cannot be read", red}
			case !v.Used.IsZero():
				return text("used " + a.since(v.Used) + " ago")
			case left <= 0:
				return text("expired")
			}
			return text("good for " + age(left))
		}},
		{name: "created", wide: true, cell: func(v view) cell { return text(a.since(v.Created)) }},
	}}
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke TOKEN", Aliases: []string{"rm", "delete"}, Short: "Revoke a token", Args: oneArg("TOKEN"),
		Long: `Revoke a token at once, and close what its user has open. TOKEN is its id in verge
token ls, or the name of its user in the audit log (token/1a2b3c4d), never the token
itself. This also revokes API tokens that were made with it.`,
		Example: "  verge token ls\n  verge token revoke token/1a2b3c4d",
		RunE: func(cmd *cobra.Command, args []string) error {
			id := strings.TrimPrefix(args[0], "token/")
			if strings.HasPrefix(id, "verge-") {
				return &userError{
					what: "token revoke", why: "this looks like the token itself, which is a secret (and is now in " +
						"your shell's history)",
					next: "give its id: verge token ls",
				}
			}
			return a.withClient(func(c *client.Client) error {
				gone, err := c.Tokens.Revoke(cmd.Context(), id)
				if err != nil {
					return err
				}
				for _, v := range gone {
					if err := a.printf("token/%s (%s) revoked", clean(v.ID), clean(tokenFor(v))); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}
