package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// maxUserTTL is what the interface accepts.
const maxUserTTL = 366 * 24 * time.Hour

// roleFlags are the roles of a command line.
type roleFlags struct {
	admin, monitor              bool
	developer, viewer, operator []string
}

func (f *roleFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.admin, "admin", false, "administrator: may do everything")
	cmd.Flags().BoolVar(&f.monitor, "monitor", false, "monitor: may read metrics, for programs that collect them")
	cmd.Flags().StringSliceVar(&f.developer, "developer", nil,
		"developer of these namespaces: may change all that is in them")
	cmd.Flags().StringSliceVar(&f.viewer, "viewer", nil, "viewer of these namespaces: may read")
	cmd.Flags().StringSliceVar(&f.operator, "operator", nil, "operator of these clusters")
}

// roles of the flags; there must be one.
func (f *roleFlags) roles(cmd *cobra.Command) (wire.Roles, error) {
	r := wire.Roles{Admin: f.admin, Monitor: f.monitor}
	put := func(m *map[string]string, names []string, role string) error {
		for _, n := range names {
			if (*m)[n] != "" {
				return usageError(cmd, "two roles for %q: remove one", n)
			}
			if *m == nil {
				*m = map[string]string{}
			}
			(*m)[n] = role
		}
		return nil
	}
	if err := errors.Join(put(&r.Namespaces, f.developer, "developer"), put(&r.Namespaces, f.viewer, "viewer"),
		put(&r.Clusters, f.operator, "operator")); err != nil {
		return r, err
	}
	if !r.Admin && !r.Monitor && len(r.Namespaces)+len(r.Clusters) == 0 {
		return r, usageError(cmd,
			"give a role: --admin, --developer NAMESPACE, --viewer NAMESPACE, --operator CLUSTER or --monitor")
	}
	return r, nil
}

func (a *app) userCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "user", Short: "Manage users and their roles", Args: cobra.ArbitraryArgs, RunE: group,
		Long: `Manage users and their roles at a root or, with a context of a cluster, at that
cluster's own interface, for when the root is away.

A user has a token in a context file. It is good until it expires, is replaced, or the
user is removed. Revoked roles end at once, also for open sessions. The certificate of
the context that the root or cluster made at its first start always works.`,
	}
	cmd.AddCommand(a.userCreateCommand(), a.userTokenCommand(), a.userLsCommand(), a.userDescribeCommand(),
		a.userRolesCommand("grant", "Grant roles to a user", client.Users.Grant),
		a.userRolesCommand("revoke", "Revoke roles of a user", client.Users.Revoke),
		&cobra.Command{
			Use: "rm NAME", Aliases: []string{"delete"}, Short: "Remove a user", Args: oneArg("NAME"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.withClient(func(c *client.Client) error {
					if err := c.Users.Remove(cmd.Context(), args[0]); err != nil {
						return err
					}
					return a.printf("user/%s removed", args[0])
				})
			},
		})
	return cmd
}

func ttlFlag(cmd *cobra.Command, ttl *time.Duration) {
	cmd.Flags().DurationVar(ttl, "ttl", 0, "the token is good for this long (default 2160h, at most 8784h)")
}

func checkUserTTL(cmd *cobra.Command, ttl time.Duration) error {
	if ttl < 0 || ttl > maxUserTTL || ttl%time.Second != 0 {
		return usageError(cmd, "--ttl %s is not whole seconds between 1s and %s", ttl, maxUserTTL)
	}
	return nil
}

func (a *app) userCreateCommand() *cobra.Command {
	var f roleFlags
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "create NAME --admin | --developer NAMESPACE… | --viewer NAMESPACE… | --operator CLUSTER… | --monitor",
		Short: "Create a user and print its context file", Args: oneArg("NAME"),
		Long: `Create a user and print its context file with the token. It is shown once: only a hash
is kept. Send the file to its user in a way that others cannot read.`,
		Example: "  verge user create bob --developer shop,bank --operator edge > bob.yaml\n" +
			"  verge --context bob.yaml get instances",
		RunE: func(cmd *cobra.Command, args []string) error {
			roles, err := f.roles(cmd)
			if err == nil {
				err = checkUserTTL(cmd, ttl)
			}
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				r, err := c.Users.Create(cmd.Context(),
					apiv1.UserRequest{Name: args[0], Roles: roles, TTLSeconds: int(ttl / time.Second)})
				if err != nil {
					return err
				}
				return a.printUser(r)
			})
		},
	}
	f.add(cmd)
	ttlFlag(cmd, &ttl)
	return cmd
}

func (a *app) userTokenCommand() *cobra.Command {
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "token NAME", Short: "Replace the token of a user and print the new context file", Args: oneArg("NAME"),
		Long: "Replace the token of a user and print the new context file. The old token ends at once.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkUserTTL(cmd, ttl); err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				r, err := c.Users.RotateToken(cmd.Context(), args[0], ttl)
				if err != nil {
					return err
				}
				return a.printUser(r)
			})
		},
	}
	ttlFlag(cmd, &ttl)
	return cmd
}

// printUser prints the context file of a user who has a new token: this context,
// with the token instead of its own credentials.
func (a *app) printUser(r apiv1.UserReply) error {
	e, _, err := a.findContext()
	if err != nil {
		return err
	}
	own := client.Context{Name: e.Name + "-" + r.User.Name, Server: e.Server, CA: e.CA, ServerName: e.ServerName,
		Token: r.Token}
	if len(r.User.Namespaces) == 1 && !r.User.Admin && len(r.User.Clusters) == 0 {
		for n := range r.User.Namespaces {
			own.Namespace = n
		}
	}
	text, err := own.Encode()
	if err != nil {
		return err
	}
	if err := a.printf("%s", strings.TrimSuffix(text, "\n")); err != nil {
		return err
	}
	a.notef("user/%s: %s; the token is good until %s (%s) and not shown again", clean(r.User.Name),
		clean(rolesOf(r.User.Roles)),
		r.User.TokenExpires.In(a.opts.Now().Location()).Format(time.RFC3339),
		age(r.User.TokenExpires.Sub(a.opts.Now())))
	a.notef("next, for the user: verge context use FILE")
	return nil
}

// rolesOf writes roles in words: "developer of bank,shop; operator of edge".
func rolesOf(r wire.Roles) string {
	var parts []string
	if r.Monitor {
		parts = append(parts, "monitor")
	}
	if r.Admin {
		parts = append(parts, "admin")
	}
	for _, of := range []struct {
		role string
		all  map[string]string
	}{{"developer", r.Namespaces}, {"viewer", r.Namespaces}, {"operator", r.Clusters}} {
		var names []string
		for n, role := range of.all {
			if role == of.role {
				names = append(names, n)
			}
		}
		if len(names) > 0 {
			slices.Sort(names)
			parts = append(parts, of.role+" of "+strings.Join(names, ","))
		}
	}
	if len(parts) == 0 {
		return "no roles"
	}
	return strings.Join(parts, "; ")
}

func (a *app) userLsCommand() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List users and their roles", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *client.Client) error {
				all, err := c.Users.List(cmd.Context())
				for _, v := range all {
					a.trouble(v.Problem)
				}
				return show(a, a.users(), mode, "", false)(all, err)
			})
		},
	}
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

func (a *app) users() listing[apiv1.UserView] {
	type view = apiv1.UserView
	return listing[view]{kind: "user", name: func(v view) string { return v.Name }, columns: []column[view]{
		{name: "user", cell: func(v view) cell { return text(v.Name) }},
		{name: "roles", cell: func(v view) cell {
			if v.Problem != "" {
				return cell{"cannot be read", red}
			}
			return text(rolesOf(v.Roles))
		}},
		{name: "token expires", cell: func(v view) cell {
			if v.Problem != "" {
				return cell{"not let in", red}
			}
			left := v.TokenExpires.Sub(a.opts.Now())
			if left <= 0 {
				return cell{"expired", red}
			}
			return text("in " + age(left))
		}},
		{name: "created", wide: true, cell: func(v view) cell { return text(a.since(v.Created)) }},
		{name: "by", wide: true, cell: func(v view) cell { return text(v.By) }},
	}}
}

// trouble says on standard error what is wrong with one of those that are listed; "" is
// nothing.
func (a *app) trouble(problem string) {
	if problem != "" {
		a.notef("note: %s", clean(problem))
	}
}

func (a *app) userDescribeCommand() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "describe NAME", Short: "Show a user, its roles and its token's expiry", Args: oneArg("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				v, err := c.Users.Get(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if mode != "table" {
					return a.encode(mode, v)
				}
				d := &details{}
				d.add("User", v.Name)
				d.add("Roles", rolesOf(v.Roles))
				d.add("Created", a.moment(v.Created))
				d.add("By", v.By)
				d.add("Token", "since "+a.moment(v.TokenCreated))
				d.add("Expires", v.TokenExpires.In(a.opts.Now().Location()).Format(time.RFC3339))
				return d.print(a)
			})
		},
	}
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

func (a *app) userRolesCommand(verb, short string,
	do func(client.Users, context.Context, string, wire.Roles) (apiv1.UserView, error)) *cobra.Command {
	var f roleFlags
	cmd := &cobra.Command{
		Use:   verb + " NAME --admin | --developer NAMESPACE… | --viewer NAMESPACE… | --operator CLUSTER… | --monitor",
		Short: short, Args: oneArg("NAME"),
		Example: "  verge user " + verb + " bob --developer shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			roles, err := f.roles(cmd)
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				v, err := do(c.Users, cmd.Context(), args[0], roles)
				if err != nil {
					return err
				}
				return a.printf("user/%s: %s", v.Name, rolesOf(v.Roles))
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) whoamiCommand() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "whoami", Short: "Show who you are to the server, and what you may do", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *client.Client) error {
				v, err := c.Users.WhoAmI(cmd.Context())
				if err != nil {
					return err
				}
				if mode != "table" {
					return a.encode(mode, v)
				}
				return a.printf("%s: %s", v.Name, rolesOf(v.Roles))
			})
		},
	}
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}
