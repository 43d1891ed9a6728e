package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// Kinds of things, by their singular.
const (
	kindApplication = "application"
	kindService     = "service"
	kindJob         = "job"
	kindInstance    = "instance"
	kindCluster     = "cluster"
	kindWorker      = "worker"
	kindNamespace   = "namespace"
)

var kindWords = []struct {
	kind  string
	words []string
}{
	{kindApplication, []string{"applications", "application", "apps", "app"}},
	{kindService, []string{"services", "service", "svc"}},
	{kindJob, []string{"jobs", "job"}},
	{kindInstance, []string{"instances", "instance", "inst"}},
	{kindCluster, []string{"clusters", "cluster"}},
	{kindWorker, []string{"workers", "worker"}},
	{kindNamespace, []string{"namespaces", "namespace", "ns"}},
}

// kindOf reads a kind in any of its spellings.
func kindOf(word string) (string, error) {
	var all []string
	for _, k := range kindWords {
		if slices.Contains(k.words, word) {
			return k.kind, nil
		}
		all = append(all, k.words[0])
	}
	return "", &userError{what: "unknown kind", why: fmt.Sprintf("%q", word),
		next: "kinds are " + strings.Join(all, ", ")}
}

// ref reads "kind/name" or "kind name"; the name is "" if it is not given.
func ref(args []string) (kind, name string, err error) {
	word := args[0]
	if len(args) > 1 {
		name = args[1]
	} else if w, n, ok := strings.Cut(word, "/"); ok {
		if word, name = w, n; name == "" {
			return "", "", &userError{what: "a name is missing", why: args[0],
				next: "write KIND/NAME, for example application/guestbook"}
		}
	}
	if name == "." || name == ".." {
		return "", "", &userError{what: "not a name", why: strings.Join(args, " "),
			next: "write KIND/NAME, for example application/guestbook"}
	}
	kind, err = kindOf(word)
	return kind, name, err
}

// instanceRef is ref for an instance; a bare name is taken to be one.
func instanceRef(args []string) (name string, err error) {
	if len(args) == 1 && !strings.Contains(args[0], "/") {
		return args[0], nil
	}
	kind, name, err := ref(args)
	if err == nil && kind != kindInstance {
		err = &userError{what: "not possible for this kind", why: strings.Join(args, " "),
			next: "it works for " + kindInstance}
	}
	return name, err
}

// client connects to the server of the chosen context.
func (a *app) client() (*client.Client, error) {
	e, _, err := a.findContext()
	if err != nil {
		return nil, err
	}
	options := []client.Option{client.WithNotice(a.notice)}
	if a.local {
		options = append(options, client.WithLocalChanges())
	}
	return client.New(e, options...)
}

// findContext is the context of --context, else of VERGE_CONTEXT, else the
// current one.
func (a *app) findContext() (client.Context, string, error) {
	path, err := a.contextPath()
	if err != nil {
		return client.Context{}, "", err
	}
	e, err := client.ReadContext(path)
	return e, path, err
}

func (a *app) contextPath() (string, error) {
	if a.context != "" {
		if isPath(a.context) {
			return a.context, nil
		}
		dir, err := client.ContextDir(a.opts.Getenv)
		if err != nil {
			return "", err
		}
		return client.ContextPath(dir, a.context)
	}
	if path := a.opts.Getenv("VERGE_CONTEXT"); path != "" {
		return path, nil
	}
	dir, err := client.ContextDir(a.opts.Getenv)
	if err != nil {
		return "", err
	}
	name, err := client.CurrentContext(dir)
	if err != nil {
		return "", err
	}
	if name == "" {
		return "", &userError{what: "no context",
			why:  "neither --context nor VERGE_CONTEXT nor a current context is set",
			next: "start something with: verge dev; or choose one: verge context use NAME|FILE"}
	}
	return client.ContextPath(dir, name)
}

// isPath tells a file from a name.
func isPath(s string) bool {
	return strings.ContainsRune(s, filepath.Separator) || strings.HasSuffix(s, ".yaml") || strings.HasSuffix(s, ".yml")
}

// maxCandidates are listed when a prefix is ambiguous.
const maxCandidates = 5

// errNoInstance is what findInstance returns where nothing is called so.
var errNoInstance = errors.New("no such instance")

type noInstanceError struct{ userError }

func (e *noInstanceError) Is(target error) bool { return target == errNoInstance }

// findInstance is the instance whose id is name, or begins with it if there is
// only one such.
func findInstance(ctx context.Context, c *client.Client, name string) (apiv1.InstanceView, error) {
	found, err := matchInstances(ctx, c, name)
	if err != nil {
		return apiv1.InstanceView{}, err
	}
	switch len(found) {
	case 0:
		return apiv1.InstanceView{},
			&noInstanceError{userError{what: "no such instance", why: name,
				next: "list them with: verge get instances"}}
	case 1:
		return found[0], nil
	}
	ids := make([]string, 0, maxCandidates+1)
	for i, f := range found {
		if i == maxCandidates {
			ids = append(ids, fmt.Sprintf("and %d more", len(found)-i))
			break
		}
		ids = append(ids, f.ID)
	}
	return apiv1.InstanceView{},
		&userError{what: "more than one instance", why: fmt.Sprintf("%s could be %s", name, strings.Join(ids, ", ")),
			next: "write more of the id"}
}

// matchInstances are the instances that name is the id, or a prefix, of.
func matchInstances(ctx context.Context, c *client.Client, name string) ([]apiv1.InstanceView, error) {
	app := ""
	if first, _, dotted := strings.Cut(name, "."); dotted {
		app = first // the part before a dot is complete: ask for less
	}
	list, err := c.Instances.List(ctx, app, "")
	if err != nil && !notFound(err) {
		return nil, err
	}
	var found []apiv1.InstanceView
	for _, i := range list {
		if i.ID == name {
			return []apiv1.InstanceView{i}, nil
		}
		if strings.HasPrefix(i.ID, name) {
			found = append(found, i)
		}
	}
	return found, nil
}

func notFound(err error) bool {
	var p *wire.Problem
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}
