package cli

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
)

func (a *app) contextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "context", Short: "Choose the root or cluster to talk to", Args: cobra.ArbitraryArgs, RunE: group,
		Long: `Choose the root or cluster to talk to.

A context is a file with the address of a root or cluster and the credentials for
it. --context names the one to use, else VERGE_CONTEXT, else the current one is used.`,
	}
	mode := ""
	list := &cobra.Command{Use: "list", Short: "List the contexts of this user", Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.contextList(mode) }}
	outputFlag(list, &mode, "table", "wide", "json", "yaml", "name")
	showMode := ""
	show := &cobra.Command{Use: "show", Short: "Show the context in use, without its secrets", Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.contextShow(showMode) }}
	outputFlag(show, &showMode, "table", "json", "yaml")
	namespace := ""
	use := &cobra.Command{Use: "use NAME|FILE", Short: "Make a context the current one; a file is copied first",
		Args: oneArg("NAME or FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("namespace") {
				return a.contextUse(args[0], &namespace)
			}
			return a.contextUse(args[0], nil)
		}}
	use.Flags().StringVar(&namespace, "namespace", "", "the namespace for later commands (\"\": all)")
	cmd.AddCommand(list, show, use,
		&cobra.Command{Use: "path", Short: "Print the file of the context in use", Args: noArgs,
			RunE: func(*cobra.Command, []string) error {
				path, err := a.contextPath()
				if err != nil {
					return err
				}
				return a.printf("%s", path)
			}},
	)
	return cmd
}

// contextView is a context without its secrets.
type contextView struct {
	Name      string `json:"name"`
	Server    string `json:"server"`
	Auth      string `json:"auth"`
	Namespace string `json:"namespace,omitempty"`
	Current   bool   `json:"current"`
	File      string `json:"file"`
	Problem   string `json:"problem,omitempty"`
}

func viewContext(e client.Context, file string) contextView {
	v := contextView{Name: e.Name, Server: e.Server, Auth: "none", Namespace: e.Namespace, File: file}
	switch {
	case e.Token != "":
		v.Auth = "token"
	case e.Cert != "":
		v.Auth = "certificate"
	}
	return v
}

func (a *app) contextList(mode string) error {
	dir, err := client.ContextDir(a.opts.Getenv)
	if err != nil {
		return err
	}
	names, err := client.ContextNames(dir)
	if err != nil {
		return err
	}
	current, err := client.CurrentContext(dir)
	if err != nil {
		return err
	}
	var list []contextView
	for _, name := range names {
		path, err := client.ContextPath(dir, name)
		if err != nil {
			return err
		}
		v := contextView{Name: name, File: path}
		if e, err := client.ReadContext(path); err != nil {
			v.Problem = "cannot be used"
		} else {
			v = viewContext(e, path)
			v.Name = name
		}
		v.Current = name == current
		list = append(list, v)
	}
	return listing[contextView]{kind: "context", name: func(v contextView) string { return v.Name },
		columns: []column[contextView]{
			{name: "current", cell: func(v contextView) cell {
				if v.Current {
					return text("*")
				}
				return text(" ")
			}},
			{name: "context", cell: func(v contextView) cell { return text(v.Name) }},
			{name: "server", cell: func(v contextView) cell { return text(v.Server) }},
			{name: "auth", cell: func(v contextView) cell {
				if v.Problem != "" {
					return cell{v.Problem, red}
				}
				return text(v.Auth)
			}},
			{name: "namespace", wide: true, cell: func(v contextView) cell { return text(v.Namespace) }},
			{name: "file", wide: true, cell: func(v contextView) cell { return text(v.File) }},
		}}.print(a, mode, list, false)
}

func (a *app) contextShow(mode string) error {
	e, path, err := a.findContext()
	if err != nil {
		return err
	}
	v := viewContext(e, path)
	dir, err := client.ContextDir(a.opts.Getenv)
	if err == nil {
		current, cerr := client.CurrentContext(dir)
		if file, ferr := client.ContextPath(dir, current); cerr == nil && ferr == nil {
			v.Current = file == path
		}
	}
	if mode != "table" {
		return a.encode(mode, v)
	}
	d := &details{}
	d.add("Name", v.Name)
	d.add("Server", v.Server)
	d.add("Auth", v.Auth)
	d.add("Namespace", v.Namespace)
	d.add("File", v.File)
	return d.print(a)
}

// contextUse makes a context the current one; namespace, if not nil, becomes its.
func (a *app) contextUse(arg string, namespace *string) error {
	dir, err := client.ContextDir(a.opts.Getenv)
	if err != nil {
		return err
	}
	name := arg
	if isPath(arg) {
		e, err := client.ReadContext(arg)
		if err != nil {
			return err
		}
		name = e.Name
		path, err := client.ContextPath(dir, name)
		if err != nil {
			return err
		}
		// Another server's context of the same name must not be lost.
		old, err := client.ReadContext(path)
		if err == nil && old.Server != e.Server {
			return &userError{what: "another context is called " + name,
				why:  path + " is of " + old.Server + ", this one of " + e.Server,
				next: "remove that file, or use this one in place: --context " + arg}
		}
		if err != nil && !errors.Is(statError(path), os.ErrNotExist) {
			return err
		}
		if err := client.WriteContext(path, e); err != nil {
			return err
		}
	}
	if namespace != nil {
		path, err := client.ContextPath(dir, name)
		if err != nil {
			return err
		}
		e, err := client.ReadContext(path)
		if err != nil {
			return err
		}
		e.Namespace = *namespace
		if err := client.WriteContext(path, e); err != nil {
			return err
		}
	}
	if err := client.SetCurrentContext(dir, name); err != nil {
		return err
	}
	return a.printf("context %s is in use", name)
}

func statError(path string) error {
	_, err := os.Stat(path)
	return err
}
