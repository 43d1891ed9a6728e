package cli

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/client"
)

//go:embed template
var fnTemplates embed.FS

// fnFile is the descriptor in the folder of a function.
const fnFile = "verge.yaml"

func (a *app) fnCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "fn", Aliases: []string{"function", "functions"}, Short: "Create, build, deploy and invoke functions",
		Args: cobra.ArbitraryArgs, RunE: group,
		Long: `Create, build, deploy and invoke functions: services that answer requests, made of
a WebAssembly module or a program.

  verge fn new hello && cd hello
  verge fn deploy
  verge fn invoke hello`,
	}
	cmd.AddCommand(a.fnNew(), a.fnBuild(), a.fnDeploy(), a.fnInvoke())
	return cmd
}

func (a *app) fnNew() *cobra.Command {
	lang := ""
	cmd := &cobra.Command{
		Use: "new NAME", Short: "Create a folder with a function", Args: oneArg("NAME"),
		Long: `Create a folder with the source of a function, its descriptor and a README.

go is a function in Go, compiled to a WebAssembly module; http is a program in Go
that listens for requests and runs as a process on the worker's machine.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if lang != "go" && lang != "http" {
				return usageError(cmd, "--lang is go or http, not %s", lang)
			}
			return a.newFunction(filepath.Clean(args[0]), lang)
		},
	}
	cmd.Flags().StringVar(&lang, "lang", "go", "its kind: go or http")
	return cmd
}

var fnName = pattern.Lazy(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

func (a *app) newFunction(dir, lang string) error {
	name := filepath.Base(dir)
	if !fnName().MatchString(name) || len(name) > api.MaxNameLength {
		return &userError{what: "invalid name for a function", why: name,
			next: "use lower-case letters, digits and -, beginning with a letter"}
	}
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // sources are read by who may read folders
		if errors.Is(err, fs.ErrExist) {
			return &userError{what: "the folder exists", why: dir,
				next: "choose another name, or: cd " + dir + " && verge fn deploy"}
		}
		return &userError{what: "the folder cannot be created", why: err.Error(), next: "choose another place"}
	}
	program, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	from := "template/" + lang
	files, err := fnTemplates.ReadDir(from)
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := fnTemplates.ReadFile(from + "/" + f.Name())
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("NAME"), []byte(name))
		text = bytes.ReplaceAll(text, []byte("PROGRAM"), []byte(fmt.Sprintf("%q", program)))
		if err := os.WriteFile(filepath.Join(dir, strings.TrimSuffix(f.Name(), ".txt")), text,
			0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	a.notef("next: cd %s && verge fn deploy", dir)
	return a.printf("%s made", dir)
}

func (a *app) fnBuild() *cobra.Command {
	cmd := &cobra.Command{
		Use: "build [FOLDER]", Short: "Build the module or the program of a function", Args: folderArgs,
		Long: `Build the function in a folder with this machine's Go toolchain: NAME.wasm if
verge.yaml says runtime: wasm, else the program NAME. A module without Go sources
beside it is used as it is.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			fn, err := a.openFunction(args)
			if err != nil {
				return err
			}
			built, err := a.buildFunction(cmd.Context(), fn)
			if err != nil {
				return err
			}
			return a.printf("%s built", built)
		},
	}
	return cmd
}

// function is one in a folder.
type function struct {
	dir string
	descriptorFile
	// modules are the files that services are made of, by their names in the
	// descriptor.
	modules []string
}

func folderArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError(cmd, "%q is one argument too many: it takes FOLDER", args[1])
	}
	return nil
}

// openFunction reads the descriptor in a folder, by default the one where we are. It
// needs no context: what names no namespace is in the default one.
func (a *app) openFunction(args []string) (*function, error) {
	fn := &function{dir: "."}
	if len(args) > 0 {
		fn.dir = args[0]
	}
	path := filepath.Join(fn.dir, fnFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, &userError{what: "no function here", why: "no " + path,
			next: "create one with verge fn new NAME, or give its FOLDER"}
	}
	list, err := a.parseDescriptors([]string{path})
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, &userError{what: "it has more than one application", why: path, next: "verge apply " + path}
	}
	fn.descriptorFile = list[0]
	seen := map[string]bool{}
	for _, name := range fn.spec.ServiceNames() {
		s := fn.spec.Services[name]
		// What has a / in it is in the object store, or on the workers, already.
		if s.Runtime == api.Wasm && !strings.Contains(s.Module, "/") && !seen[s.Module] {
			seen[s.Module] = true
			fn.modules = append(fn.modules, s.Module)
		}
	}
	return fn, nil
}

// buildFunction builds the function and returns the path of the result.
func (a *app) buildFunction(ctx context.Context, fn *function) (string, error) {
	out, wasm := fn.spec.Application, len(fn.modules) > 0
	if wasm {
		out = fn.modules[0]
	}
	sources, err := filepath.Glob(filepath.Join(fn.dir, "*.go"))
	if err != nil {
		return "", err
	}
	if len(sources) == 0 {
		for _, m := range fn.modules {
			if _, err := os.Stat(filepath.Join(fn.dir, m)); err != nil {
				return "", &userError{what: "nothing to build",
					why:  fmt.Sprintf("neither Go sources nor %s are in %s", m, fn.dir),
					next: "add the module or its sources"}
			}
		}
		return strings.Join(fn.modules, ", "), nil
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		return "", &userError{what: "the Go toolchain is missing", why: "go is not in PATH",
			next: "install it (https://go.dev/dl), or put a finished " + out + " there without the sources"}
	}
	args := []string{"build", "-trimpath", "-ldflags=-s -w", "-o", out}
	env := append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if wasm {
		args = append(args, "-buildmode=c-shared")
		env = append(env, "GOOS=wasip1", "GOARCH=wasm")
	} else {
		env = append(env, "GOOS=linux")
	}
	cmd := exec.CommandContext(ctx, tool, append(args, ".")...)
	var said bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = fn.dir, env, &said, &said
	a.notef("building %s; the first time takes a while", out)
	if err := cmd.Run(); err != nil {
		return "", &userError{what: "the build failed", why: strings.TrimSpace(said.String() + " " + err.Error()),
			next: "correct it and try again; functions need Go 1.24 or newer"}
	}
	return out, nil
}

func (a *app) fnDeploy() *cobra.Command {
	f, noBuild := applyFlags{}, false
	cmd := &cobra.Command{
		Use: "deploy [FOLDER]", Short: "Build a function, upload its module and apply its descriptor", Args: folderArgs,
		Long: `Build the function in a folder, upload its module to the object store, apply its
descriptor, and wait until ready. The module's name contains its digest, so what runs
is what was deployed, and a change is a rollout like any other.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.timeout <= 0 {
				return usageError(cmd, "--timeout must be more than 0")
			}
			fn, err := a.openFunction(args)
			if err != nil {
				return err
			}
			if err := a.place(&fn.descriptorFile, f.namespace); err != nil {
				return err
			}
			if !noBuild {
				if _, err := a.buildFunction(cmd.Context(), fn); err != nil {
					return err
				}
			}
			return a.withClient(func(c *client.Client) error { return a.deploy(cmd.Context(), c, fn, f) })
		},
	}
	cmd.Flags().BoolVar(&noBuild, "no-build", false, "use the existing module")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "return once it is accepted")
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultTimeout, "wait at most this long")
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", namespaceHelp)
	f.mode = "table"
	return cmd
}

func (a *app) deploy(ctx context.Context, c *client.Client, fn *function, f applyFlags) error {
	for _, module := range fn.modules {
		in := client.ObjectUpload{Namespace: fn.spec.Namespace, Type: "application/wasm"}
		file, err := openObject(filepath.Join(fn.dir, module), &in)
		if err != nil {
			return err
		}
		in.Name = "functions/" + fn.spec.Application + "/" + in.Digest + ".wasm"
		_, err = c.Objects.Put(ctx, in)
		_ = file.Close() // it was only read
		if err != nil {
			return err
		}
		if err := fn.rename(module, in.Name); err != nil {
			return err
		}
		a.notef("%s is object/%s", module, in.Name)
	}
	if err := a.apply(ctx, c, []descriptorFile{fn.descriptorFile}, f); err != nil {
		return err
	}
	name := fn.spec.Application
	a.notef("call it: verge fn invoke %s", name)
	if url := a.gatewayURL(ctx, c, fn.spec); url != "" {
		return a.printf("%s", url)
	}
	return nil
}

// rename writes the name of an object in place of that of a file into the descriptor.
func (fn *function) rename(module, object string) error {
	line := regexp.MustCompile(`(\bmodule["']?:\s*["']?)` + regexp.QuoteMeta(module) + `(["'\s,}]|$)`)
	source := line.ReplaceAll(fn.source, []byte("${1}"+object+"${2}"))
	spec, _, err := descriptor.Parse(fn.name, source)
	if err != nil {
		return fmt.Errorf("name the module in %s: %w", fn.name, err)
	}
	for _, s := range spec.Services {
		if s.Module == module {
			return &userError{what: "the module cannot be named in the descriptor",
				why:  fmt.Sprintf("%s has module: %s in a form that is not supported here", fn.name, module),
				next: "write it on a line of its own: module: " + module}
		}
	}
	fn.source, fn.spec = source, spec
	return nil
}

// gatewayURL is where an application is reached through a gateway that is known, "" if
// there is none.
func (a *app) gatewayURL(ctx context.Context, c *client.Client, app *api.Application) string {
	host := ""
	for _, name := range app.ServiceNames() {
		for _, p := range app.Services[name].Ports {
			if p.Ingress != nil {
				host = p.Ingress.Host
			}
		}
	}
	workers, err := c.Workers.List(ctx)
	if err != nil || host == "" {
		return ""
	}
	for _, w := range workers {
		if _, port, ok := strings.Cut(w.Gateway, "]:"); ok && w.Gateway != "" {
			return "http://" + host + ":" + port + "/"
		}
		if at := strings.LastIndexByte(w.Gateway, ':'); at >= 0 {
			return "http://" + host + w.Gateway[at:] + "/"
		}
	}
	return ""
}
