package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
)

// completeWithin is how long somebody who presses Tab waits for names at most.
const completeWithin = time.Second

// completion says what the arguments of a command name.
type completion struct {
	kinds []string
	bare  string // the kind that a bare name is of, "" for none
	lists bool   // a kind alone is enough
}

// completes are the commands whose arguments are completed.
var completes = map[string]completion{
	"verge get": {kinds: []string{kindApplication, kindService, kindJob, kindInstance, kindCluster,
		kindWorker, kindNamespace}, lists: true},
	"verge describe": {kinds: []string{kindApplication, kindService, kindJob, kindInstance, kindCluster,
		kindWorker, kindNamespace}},
	"verge wait": {kinds: []string{kindApplication, kindService, kindJob, kindInstance, kindCluster,
		kindWorker}},
	"verge delete":          {kinds: []string{kindApplication}},
	"verge scale":           {kinds: []string{kindService}, bare: kindService},
	"verge restart":         {kinds: []string{kindApplication, kindService, kindInstance}, bare: kindApplication},
	"verge job run":         {bare: kindJob},
	"verge job stop":        {bare: kindJob},
	"verge job suspend":     {bare: kindJob},
	"verge job resume":      {bare: kindJob},
	"verge logs":            {kinds: []string{kindInstance, kindService, kindApplication}, bare: kindInstance},
	"verge exec":            {kinds: []string{kindInstance}, bare: kindInstance},
	"verge port-forward":    {kinds: []string{kindInstance, kindService}, bare: kindInstance},
	"verge explain":         {kinds: []string{kindInstance}, bare: kindInstance},
	"verge drain":           {kinds: []string{kindWorker, kindCluster}},
	"verge cordon":          {kinds: []string{kindWorker, kindCluster}},
	"verge uncordon":        {kinds: []string{kindWorker, kindCluster}},
	"verge remove":          {kinds: []string{kindWorker, kindCluster}},
	"verge revoke":          {kinds: []string{kindWorker, kindCluster}},
	"verge namespace quota": {bare: kindNamespace},
	"verge namespace rm":    {bare: kindNamespace},
	"verge secret rm":       {bare: kindSecret},
	"verge object rm":       {bare: kindObject},
	"verge object get":      {bare: kindObject},
	"verge token revoke":    {bare: kindToken},
	"verge user describe":   {bare: kindUser},
	"verge user grant":      {bare: kindUser},
	"verge user revoke":     {bare: kindUser},
	"verge user rm":         {bare: kindUser},
	"verge user token":      {bare: kindUser},
	"verge context use":     {bare: kindContext},
	"verge local drop":      {bare: kindService},
	"verge recovery finish": {bare: kindCluster},
}

// Kinds that are completed and nothing else.
const (
	kindUser    = "user"
	kindContext = "context"
	kindToken   = "token"
)

// addCompletions makes shell completion know names. Names that cannot be found in time are left
// out silently.
func (a *app) addCompletions(cmd *cobra.Command) {
	if c, ok := completes[cmd.CommandPath()]; ok {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string,
			cobra.ShellCompDirective) {
			return a.completeRef(cmd.Context(), c, args, typed)
		}
	}
	for flag, kind := range map[string]string{"app": kindApplication, "namespace": kindNamespace,
		"cluster": kindCluster, "user": kindUser, "context": kindContext} {
		if cmd.LocalFlags().Lookup(flag) == nil {
			continue
		}
		// It fails where somebody else completes the flag: then that is better.
		_ = cmd.RegisterFlagCompletionFunc(flag,
			func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				return beginning(typed, a.names(cmd.Context(), kind)), cobra.ShellCompDirectiveNoFileComp
			})
	}
	for _, sub := range cmd.Commands() {
		a.addCompletions(sub)
	}
}

// completeRef completes KIND/NAME, KIND NAME, or a bare name.
func (a *app) completeRef(ctx context.Context, c completion, args []string, typed string) ([]string,
	cobra.ShellCompDirective) {
	const alone = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 { // KIND NAME
		kind, err := kindOf(args[0])
		if len(args) > 1 || err != nil || !slices.Contains(c.kinds, kind) {
			return nil, alone
		}
		return beginning(typed, a.names(ctx, kind)), alone
	}
	if word, _, ok := strings.Cut(typed, "/"); ok {
		if kind, err := kindOf(word); err == nil && slices.Contains(c.kinds, kind) {
			var out []string
			for _, n := range a.names(ctx, kind) {
				out = append(out, word+"/"+n)
			}
			return beginning(typed, out), alone
		}
	}
	var out []string
	if c.bare != "" {
		out = beginning(typed, a.names(ctx, c.bare))
	}
	for _, k := range kindWords {
		if !slices.Contains(c.kinds, k.kind) || len(out) > 0 && typed != "" {
			continue
		}
		word := k.kind + "/"
		if c.lists {
			word = k.words[0]
		}
		out = append(out, beginning(typed, []string{word})...)
	}
	if slices.ContainsFunc(out, func(s string) bool { return strings.HasSuffix(s, "/") }) {
		return out, alone | cobra.ShellCompDirectiveNoSpace
	}
	return out, alone
}

func beginning(typed string, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, typed) })
}

// names are those of a kind that the user may see; none if they are not to be had.
func (a *app) names(ctx context.Context, kind string) (out []string) {
	if kind == kindContext {
		dir, err := client.ContextDir(a.opts.Getenv)
		if err == nil {
			out, _ = client.ContextNames(dir)
		}
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	a.noticed.Store(true) // this is no place for notices
	_ = a.withClient(func(c *client.Client) error {
		switch kind {
		case kindApplication:
			out = namesOf(c.Applications.List(ctx))(a.applications().name)
		case kindService:
			out = namesOf(listServices(ctx, c, "", ""))(services().name)
		case kindJob:
			out = namesOf(listJobs(ctx, c, "", ""))(a.jobs().name)
		case kindInstance:
			out = namesOf(c.Instances.List(ctx, "", ""))(a.instances().name)
		case kindCluster:
			out = namesOf(c.Clusters.List(ctx))(clusters().name)
		case kindWorker:
			out = namesOf(c.Workers.List(ctx))(workers().name)
		case kindNamespace:
			out = namesOf(c.Namespaces.List(ctx))(a.namespaces().name)
		case kindSecret:
			out = namesOf(c.Secrets.List(ctx, ""))(a.secrets().name)
		case kindObject:
			out = namesOf(c.Objects.List(ctx, ""))(a.objects().name)
		case kindToken:
			out = namesOf(c.Tokens.List(ctx))(a.tokens().name)
		case kindUser:
			out = namesOf(c.Users.List(ctx))(a.users().name)
		}
		return nil
	})
	return out
}

// namesOf are the names of what was listed, as far as they may be shown; none after
// an error.
func namesOf[T any](list []T, err error) func(name func(T) string) []string {
	return func(name func(T) string) (out []string) {
		if err != nil {
			return nil
		}
		for _, v := range list {
			out = append(out, clean(name(v)))
		}
		return out
	}
}
