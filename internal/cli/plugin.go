package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// PluginJoin is what a scheduler plugin joins its cluster's bus with.
type PluginJoin struct {
	// Dir gets the identity. TokenFile holds the token, "-" is Stdin.
	Dir, TokenFile string
	Stdin          io.Reader
	// Warn receives warnings about what works but is unwise.
	Warn func(string)
}

// PluginKeep is whose identity is to be kept valid.
type PluginKeep struct {
	Dir string
	// Sleep waits, until ctx ends; Say receives messages about what happened.
	Sleep func(ctx context.Context, d time.Duration) error
	Say   func(string)
}

// PluginIdentity is how a client of NATS connects as a plugin and what it subscribes
// to. It is written to a file of the identity, too.
type PluginIdentity struct {
	Plugin  string `json:"plugin"`
	Cluster string `json:"cluster"`
	// Servers are URLs, TLSName the name that their certificate must prove. The
	// connection begins with the TLS handshake.
	Servers []string `json:"servers"`
	TLSName string   `json:"tls_name"`
	// CA, Cert, Key and Credentials are files (PEM, and the form that NATS clients read).
	CA          string `json:"ca"`
	Cert        string `json:"cert"`
	Key         string `json:"key"`
	Credentials string `json:"credentials"`
	// Subject of the questions, and Queue, the queue group: one of its members gets each
	// question.
	Subject string `json:"subject"`
	Queue   string `json:"queue"`
	File    string `json:"-"`
}

func (a *app) pluginCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "plugin", Short: "List the scheduler plugins of a cluster, and connect them to its bus",
		Args: cobra.ArbitraryArgs, RunE: group}
	j := PluginJoin{}
	mode, stay := "", false
	join := &cobra.Command{
		Use: "join --token-file FILE --dir DIR", Short: "Get an identity for a scheduler plugin on the bus",
		Args: noArgs,
		Long: `Get an identity for a scheduler plugin on the bus of its cluster (NATS, with TLS). The
command makes keys in DIR and adds the cluster's certificate. nats.json there says how
a NATS client connects and what it subscribes to.

Run again without a token, it renews the certificate if half of its year is over or
the cluster's key has changed, and otherwise changes nothing. With --stay it does so
until you end it. The program uses renewed files when it next connects.

Make the token at the cluster with verge token create --plugin NAME, and register the
plugin with verge cluster --plugin NAME=nats:. To revoke it: verge revoke plugin/NAME.`,
		Example: "  verge plugin join --token-file ilp.token --dir ilp-identity\n" +
			"  verge plugin join --dir ilp-identity --stay",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if j.Dir == "" {
				return usageError(cmd, "--dir is missing: the directory for the identity")
			}
			if a.opts.JoinPlugin == nil {
				return &userError{what: "not possible with this build", why: "it cannot join",
					next: "use a build with the daemons"}
			}
			j.Stdin, j.Warn = a.in, func(s string) { a.notef("%s", s) }
			id, err := a.opts.JoinPlugin(cmd.Context(), j)
			if err != nil {
				return err
			}
			if mode != "table" {
				err = a.encode(mode, id)
			} else {
				a.notef("next, at the cluster: verge cluster --plugin %s=nats:", clean(id.Plugin))
				err = a.printf("plugin %s of cluster %s: %s", clean(id.Plugin), clean(id.Cluster), id.File)
			}
			if err != nil || !stay || a.opts.KeepPlugin == nil {
				return err
			}
			return a.opts.KeepPlugin(cmd.Context(),
				PluginKeep{Dir: j.Dir, Sleep: a.opts.Sleep, Say: func(s string) { a.notef("%s", clean(s)) }})
		},
	}
	join.Flags().BoolVar(&stay, "stay", false, "stay, and renew the certificate whenever it is due")
	join.Flags().StringVar(&j.TokenFile, "token-file", "",
		"file with the token, - for standard input; needed the first time only")
	join.Flags().StringVar(&j.Dir, "dir", "", "directory for the identity")
	outputFlag(join, &mode, "table", "json", "yaml")
	cmd.AddCommand(a.pluginLs(), a.pluginDescribe(), join)
	return cmd
}

// revokePlugin makes the keys of a plugin count no more.
func (a *app) revokePlugin(ctx context.Context, name string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Plugins.Revoke(ctx, name); err != nil {
		return err
	}
	a.notef("to let it join again: verge token create --plugin %s", name)
	return a.printf("the keys of plugin/%s are revoked", name)
}
