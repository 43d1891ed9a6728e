package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/wire"
)

const kindSecret = "secret"

func (a *app) secretCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "secret", Aliases: []string{"secrets"}, Short: "Set, list and remove secrets", Args: cobra.ArbitraryArgs,
		RunE: group,
		Long: `Set, list and remove secrets.

A secret has a name in a namespace, and a value that nobody can read again. A
descriptor names it as a variable (env_secrets) or as a file (files). Instances get its
value when they start, and a new one in their files without a restart. Only the workers
that run them can open it, also while they are cut off.`,
	}
	cmd.AddCommand(a.secretSet(), a.secretList(), a.secretRemove())
	return cmd
}

// ofNamespace adds the flag for the namespace of one secret.
func (f *namespaceFlags) ofNamespace(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "",
		"namespace of the secret (default: that of the context, else default)")
}

// one is the namespace of one secret.
func (f *namespaceFlags) one(a *app) (string, error) {
	if err := f.resolve(a, ""); err != nil {
		return "", err
	}
	return cmp.Or(f.namespace, api.DefaultNamespace), nil
}

func (a *app) secretSet() *cobra.Command {
	var file, cert, key string
	var login registryLogin
	f := namespaceFlags{}
	cmd := &cobra.Command{
		Use: "set NAME (--from-file FILE | --cert FILE --key FILE | --registry HOST --username USER " +
			"--password-file FILE)", Short: "Set a secret to the content of a file", Args: secretName,
		Long: fmt.Sprintf(`Set a secret to the whole content of a file, at most %d KiB; "-" is standard input. A
value is never an argument, because others can see arguments. Running instances get a
new value in their files at once, each replaced as a whole, and in their variables at
the next start (verge restart). verge secret ls shows how many instances have it.

With --cert and --key it is a certificate for gateways (tls: {secret: NAME}): the chain,
the host's first, and its private key, both in PEM. Gateways use a new one at once.

With --registry, --username and --password-file it is for pulling images (pull_secret:
NAME of a service). Docker's config.json, or the .dockerconfigjson of a Kubernetes
secret, works with --from-file.`, wire.MaxSecretBytes>>10),
		Example: "  verge secret set db-password --from-file password.txt\n" +
			"  openssl rand -hex 20 | tr -d '\\n' | verge secret set session-key --from-file -",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := login.check(file != "" || cert != "" || key != ""); err != nil {
				return usageError(cmd, "%v", err)
			}
			switch pair := cert != "" || key != ""; {
			case login.given():
			case file == "" && !pair:
				return usageError(cmd, "--from-file is missing: a file with the value, or - for standard input")
			case pair && (file != "" || cert == "" || key == ""):
				return usageError(cmd, "give --cert and --key together, and without --from-file")
			}
			namespace, err := f.one(a)
			if err != nil {
				return err
			}
			var value []byte
			switch {
			case login.given():
				value, err = login.value(a)
			case file != "":
				value, err = a.secretValue(file)
			default:
				value, err = a.certificateValue(cert, key)
			}
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				v, err := c.Secrets.Set(cmd.Context(), namespace, args[0], value)
				if err != nil {
					return err
				}
				if file != "" && bytes.HasSuffix(value, []byte("\n")) {
					a.notef("note: the value ends with a line break")
				}
				if file != "" {
					a.whoGetsIt(v)
				}
				return a.printf("secret/%s of namespace %s set", v.Name, v.Namespace)
			})
		},
	}
	cmd.Flags().StringVar(&file, "from-file", "", "file with the value, - for standard input")
	cmd.Flags().StringVar(&cert, "cert", "", "file with a certificate and its chain, for gateways")
	cmd.Flags().StringVar(&key, "key", "", "file with the private key of --cert")
	login.flags(cmd)
	f.ofNamespace(cmd)
	return cmd
}

// whoGetsIt says when those that use a secret have its new value.
func (a *app) whoGetsIt(v apiv1.SecretView) {
	if v.Holders == 0 {
		return
	}
	var files []string
	for _, s := range v.UsedBy {
		if !slices.Contains(v.Variable, s) {
			files = append(files, s)
		}
	}
	if len(files) > 0 {
		a.notef("note: running instances of %s get it in their files without a restart: verge secret ls shows when "+
			"they have it", strings.Join(files, ", "))
	}
	if len(v.Variable) > 0 {
		a.notef("note: running instances of %s have the former value in a variable until: verge restart service/%s",
			strings.Join(v.Variable, ", "), v.Variable[0])
	}
}

// current says how many of those that have a value of a secret have the newest one.
func current(v apiv1.SecretView) cell {
	if v.Holders == 0 {
		return text("")
	}
	c := cell{text: fmt.Sprintf("%d/%d", v.Current, v.Holders)}
	if v.Current < v.Holders {
		c.colour = yellow
	}
	if len(v.Restart) > 0 {
		c.text += ", others after a restart"
	}
	return c
}

// secretName wants a name alone. What stands after it may be a value, and is not
// repeated.
func secretName(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return &userError{
			what: "secret set", why: "a value is never an argument, because others can see arguments (and it is now " +
				"in your shell's history)",
			next: "write it to a file, or pipe it: verge secret set NAME --from-file FILE",
		}
	}
	return oneArg("NAME")(cmd, args)
}

// secretValue reads a value. No error has any of it.
func (a *app) secretValue(file string) (value []byte, err error) {
	if file == "-" {
		value, err = atomicfile.ReadAllBounded(a.in, wire.MaxSecretBytes)
	} else {
		value, err = atomicfile.ReadBounded(file, wire.MaxSecretBytes)
	}
	var next string
	switch {
	case err == nil && len(value) == 0:
		return nil, &userError{what: "the secret has no value", why: file + " is empty",
			next: "write the value into it; to remove a secret: verge secret rm NAME"}
	case err == nil:
		return value, nil
	case errors.Is(err, atomicfile.ErrTooLarge):
		next = "keep large files elsewhere, and their key here"
	case errors.Is(err, os.ErrNotExist):
		next = "give the path of a file, or - for standard input"
	default:
		next = "make it readable"
	}
	return nil, &userError{what: "the value of the secret cannot be read", why: err.Error(), next: next}
}

func (a *app) secretList() *cobra.Command {
	mode, f := "", namespaceFlags{}
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List secrets, without their values", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.resolve(a, ""); err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				return show(a, a.secrets(), mode, "", false)(c.Secrets.List(cmd.Context(), f.namespace))
			})
		},
	}
	f.add(cmd)
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

func (a *app) secrets() listing[apiv1.SecretView] {
	type view = apiv1.SecretView
	return listing[view]{kind: kindSecret, name: func(v view) string { return v.Name }, columns: []column[view]{
		{name: "secret", cell: func(v view) cell { return text(v.Name) }},
		{name: "namespace", cell: func(v view) cell { return text(v.Namespace) }},
		{name: "changed", cell: func(v view) cell { return text(a.since(v.Updated)) }},
		{name: "expires", cell: func(v view) cell { return a.expiry(v.Expires) }},
		{name: "current", cell: current},
		{name: "used by", cell: func(v view) cell { return text(strings.Join(v.UsedBy, ", ")) }},
		{name: "by", wide: true, cell: func(v view) cell { return text(v.By) }},
		{name: "problem", cell: func(v view) cell { return cell{text: v.Problem, colour: red} }},
	}}
}

func (a *app) secretRemove() *cobra.Command {
	f := namespaceFlags{}
	cmd := &cobra.Command{
		Use: "rm NAME", Aliases: []string{"delete"}, Short: "Remove a secret", Args: oneArg("NAME"),
		Long: `Remove a secret. Running instances keep the value that they have; instances that start
without it wait until it is set again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, err := f.one(a)
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				return a.removeSecret(cmd.Context(), c, namespace,
					args[0])
			})
		},
	}
	f.ofNamespace(cmd)
	return cmd
}

func (a *app) removeSecret(ctx context.Context, c *client.Client, namespace, name string) error {
	v, err := c.Secrets.Remove(ctx, namespace, name)
	if err != nil {
		return err
	}
	if len(v.UsedBy) > 0 {
		a.notef("note: %s still need it: their instances will wait for it at their next start",
			strings.Join(v.UsedBy, ", "))
	}
	return a.printf("secret/%s of namespace %s removed", v.Name, v.Namespace)
}
