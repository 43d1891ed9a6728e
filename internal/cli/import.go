package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/importer"
)

// importFlags of verge import.
type importFlags struct {
	output, name, namespace string
	envFiles, profiles      []string
	memory                  string
	strict, force           bool
}

func (a *app) importCommand() *cobra.Command {
	f := &importFlags{}
	cmd := &cobra.Command{
		Use:   "import [compose|kubernetes|oakestra] FILE|DIRECTORY|-...",
		Short: "Convert compose files, Kubernetes manifests and Oakestra descriptors",
		Long: `Convert compose files, Kubernetes manifests and Oakestra descriptors to descriptors.

Each file is one application, or several; all Kubernetes manifests together are one
for each namespace. Everything that could not be converted is reported on standard
error, with file and line.

Exit code 0: everything was converted; 2: descriptors were written, with losses;
1: nothing was written.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := importer.Kind("")
			if len(args) > 0 && slices.Contains(importer.Kinds(), importer.Kind(args[0])) {
				kind, args = importer.Kind(args[0]), args[1:]
			}
			if err := filesArgs(cmd, args); err != nil {
				return err
			}
			return a.importFiles(cmd, kind, args, f)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			var kinds []string
			for _, k := range importer.Kinds() {
				kinds = append(kinds, string(k))
			}
			return kinds, cobra.ShellCompDirectiveDefault
		},
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "-",
		"directory for a file NAME.yaml for each application; - is standard output")
	cmd.Flags().StringVar(&f.name, "name", "", "name of the application (default: from the files or their folder)")
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "",
		"namespace of the applications (default: from the files)")
	cmd.Flags().StringArrayVar(&f.envFiles, "env-file", nil,
		"file with the variables of a compose file, instead of .env beside it (repeatable)")
	cmd.Flags().StringArrayVar(&f.profiles, "profile", nil,
		"profile of a compose file whose services are included, * for all (repeatable)")
	cmd.Flags().StringVar(&f.memory, "memory-limit", "1Gi", "memory limit of instances where the files state none")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "write nothing if something would be lost")
	cmd.Flags().BoolVar(&f.force, "force", false, "replace existing files")
	return cmd
}

// importFiles makes descriptors of files, and writes them if all is well.
func (a *app) importFiles(cmd *cobra.Command, kind importer.Kind, files []string, f *importFlags) error {
	o := importer.Options{Kind: kind, Name: f.name, Namespace: f.namespace, Profiles: f.profiles}
	for what, name := range map[string]string{"--name": f.name, "--namespace": f.namespace} {
		if problem := api.NameProblem(name); name != "" && problem != "" {
			return usageError(cmd, "%s %s", what, problem)
		}
	}
	var err error
	if o.MemoryLimit, err = api.ParseBytes(f.memory); err != nil {
		return usageError(cmd, "--memory-limit %v", err)
	}
	for _, file := range f.envFiles {
		if o.Variables == nil {
			o.Variables = map[string]string{}
		}
		data, err := atomicfile.ReadBounded(file, importer.MaxSourceBytes)
		if err != nil {
			return &userError{what: "the variables cannot be read", why: err.Error(),
				next: "give --env-file the path of a file"}
		}
		vars, unset, err := importer.Variables(data, o.Variables)
		if err != nil {
			return &userError{what: "the variables cannot be read", why: file + ": " + err.Error(),
				next: "write one NAME=VALUE a line"}
		}
		for _, name := range unset {
			a.notef("%s %s", importer.Said.String()+":",
				clean(file+": has nothing in place of ${"+name+
					"}, which nothing sets: the environment is not looked at, so write "+name+"=VALUE above it"))
		}
		o.Variables = vars
	}
	sources, err := a.importSources(files, kind)
	if err != nil {
		return err
	}
	res, err := importer.Import(sources, o)
	lost := 0
	for _, n := range res.Notes {
		word, shade := n.Level.String()+":", colour("")
		switch n.Level {
		case importer.Lost:
			shade = yellow
			lost++
		case importer.Refused:
			shade = red
		}
		if shade != "" {
			word = a.paint(a.err, shade, word)
		}
		a.notef("%s %s", word, clean(n.String()))
	}
	switch {
	case errors.Is(err, importer.ErrRefused):
		return &userError{what: "nothing was imported", why: "see the errors above",
			next: "correct the files; verge schema describes what Verge can express"}
	case err != nil:
		return err
	case f.strict && res.Lost:
		return &userError{what: "nothing was imported",
			why:  fmt.Sprintf("%s would be lost, and --strict is given", count(lost, "thing")),
			next: "correct the files, or leave out --strict"}
	}
	if err := a.writeImported(res.Apps, f); err != nil {
		return err
	}
	if res.Lost {
		return &incompleteError{userError{what: "imported with losses",
			why:  fmt.Sprintf("%s not carried over, see above", wasOrWere(lost)),
			next: "check the descriptors, then: verge apply"}}
	}
	return nil
}

func wasOrWere(n int) string {
	if n == 1 {
		return "1 thing was"
	}
	return fmt.Sprintf("%d things were", n)
}

// importSources reads files, those of directories, or standard input.
func (a *app) importSources(files []string, kind importer.Kind) ([]importer.Source, error) {
	var out []importer.Source
	for _, file := range files {
		if file == "-" {
			data, err := io.ReadAll(io.LimitReader(a.in, importer.MaxSourceBytes+1))
			if err != nil {
				return nil, fmt.Errorf("read standard input: %w", err)
			}
			return []importer.Source{{Name: "stdin", Data: data}}, nil
		}
		names, err := filesAt(file, kind)
		if err != nil {
			return nil, cannotImport(err)
		}
		for _, name := range names {
			s, err := importSource(name)
			if err != nil {
				return nil, cannotImport(err)
			}
			out = append(out, s)
		}
	}
	return out, nil
}

func cannotImport(err error) error {
	return &userError{what: "nothing was imported", why: err.Error(),
		next: "give the paths of files or directories, or - for standard input"}
}

// filesAt are the files that a path stands for: itself, or those of a directory.
func filesAt(file string, kind importer.Kind) ([]string, error) {
	info, err := os.Stat(file)
	if err != nil || !info.IsDir() {
		return []string{file}, err
	}
	if kind == importer.Compose || kind == "" {
		for _, name := range importer.ComposeNames {
			if at := filepath.Join(file, name); isFile(at) {
				return []string{at}, nil
			}
		}
	}
	for _, name := range importer.RecipeNames {
		if at := filepath.Join(file, name); isFile(at) {
			return []string{at}, nil // which is refused, and says what to do
		}
	}
	entries, err := os.ReadDir(file)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); slices.Contains([]string{".yaml", ".yml", ".json"}, ext) &&
			isFile(filepath.Join(file, e.Name())) {
			out = append(out, filepath.Join(file, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no file that ends with .yaml, .yml or .json", file)
	}
	return out, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// importSource reads one byte more than a source may have, so that the importer can
// say that it is too long.
func importSource(file string) (importer.Source, error) {
	f, err := os.Open(file)
	if err != nil {
		return importer.Source{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, importer.MaxSourceBytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return importer.Source{}, err
	}
	s := importer.Source{Name: file, Data: data}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return s, nil //nolint:nilerr // then it has no folder
	}
	s.Folder = filepath.Base(dir)
	s.Open = func(path string) (data []byte, err error) {
		root, err := os.OpenRoot(dir) // no link leads out of it
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, root.Close()) }()
		info, err := root.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() || info.Size() > importer.MaxSourceBytes {
			return nil, errors.New("it is not a file, or too large")
		}
		return root.ReadFile(path)
	}
	return s, nil
}

// writeImported writes all descriptors, or none.
func (a *app) writeImported(apps []importer.App, f *importFlags) error {
	if f.output == "-" {
		for i, app := range apps {
			if i > 0 {
				if err := a.printf("---"); err != nil {
					return err
				}
			}
			if err := a.printf("%s", strings.TrimRight(string(app.Source), "\n")); err != nil {
				return err
			}
		}
		return nil
	}
	const next = "give another directory, or --force"
	made := false
	if _, err := os.Stat(f.output); errors.Is(err, os.ErrNotExist) {
		made = true
	}
	if err := os.MkdirAll(f.output, 0o755); err != nil {
		return &userError{what: "nothing was imported", why: err.Error(), next: "give a directory that can be created"}
	}
	paths := make([]string, len(apps))
	for i, app := range apps {
		paths[i] = filepath.Join(f.output, app.Name+".yaml")
		if _, err := os.Lstat(paths[i]); err == nil && !f.force {
			return &userError{what: "nothing was imported", why: paths[i] + " exists", next: next}
		}
	}
	for i, app := range apps {
		if err := atomicfile.Write(paths[i], app.Source, 0o644); err != nil {
			for _, p := range paths[:i] {
				if !f.force { // else something is lost already
					err = errors.Join(err, os.Remove(p))
				}
			}
			if made {
				_ = os.Remove(f.output) // it is ours, and stays if something is in it
			}
			return &userError{what: "nothing was imported", why: err.Error(), next: "make the directory writable"}
		}
	}
	for _, p := range paths {
		if err := a.printf("%s", p); err != nil {
			return err
		}
	}
	return nil
}
