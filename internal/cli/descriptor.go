package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
)

// readDescriptor reads FILE or "-" and checks it; its errors name the line.
func (a *app) readDescriptor(file string) ([]byte, *api.Application, []descriptor.Warning, error) {
	source, name, err := a.readSource(file)
	if err != nil {
		return nil, nil, nil, err
	}
	spec, warnings, err := descriptor.Parse(name, source)
	if err != nil {
		return nil, nil, nil, a.invalid(name, err)
	}
	for _, w := range warnings {
		a.notef("%s %s", a.paint(a.err, yellow, "warning:"), clean(w.String()))
	}
	return source, spec, warnings, nil
}

// descriptorFile is one application to be applied.
type descriptorFile struct {
	name     string // of its file, with the line where it is not the first there
	source   []byte
	spec     *api.Application
	warnings []descriptor.Warning
}

// readDescriptors reads all documents of FILES or "-" and checks them all; one that
// names no namespace is put into the one given, or else into that of the context.
func (a *app) readDescriptors(files []string, namespace string) ([]descriptorFile, error) {
	all, err := a.parseDescriptors(files)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if err := a.place(&all[i], namespace); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// parseDescriptors is readDescriptors for what is not sent anywhere: it asks for no
// context.
func (a *app) parseDescriptors(files []string) ([]descriptorFile, error) {
	var all []descriptorFile
	names := map[string]string{}
	for _, file := range files {
		source, name, err := a.readSource(file)
		if err != nil {
			return nil, err
		}
		for _, doc := range descriptor.Documents(source) {
			d := descriptorFile{name: name, source: doc.Source}
			if doc.Line > 1 {
				d.name = fmt.Sprintf("%s:%d", name, doc.Line)
			}
			if d.spec, d.warnings, err = descriptor.Parse(name, doc.InPlace()); err != nil {
				return nil, a.invalid(name, err)
			}
			for _, w := range d.warnings {
				a.notef("%s %s", a.paint(a.err, yellow, "warning:"), clean(w.String()))
			}
			if other, twice := names[d.spec.Application]; twice {
				return nil, &userError{what: "two descriptors have the same application",
					why:  fmt.Sprintf("%s in %s and in %s", d.spec.Application, other, d.name),
					next: "remove one of them"}
			}
			names[d.spec.Application] = d.name
			all = append(all, d)
		}
	}
	return all, nil
}

// place puts a descriptor into a namespace, where it names none.
func (a *app) place(d *descriptorFile, namespace string) error {
	if descriptor.NamesNamespace(d.source) {
		if namespace != "" && namespace != d.spec.Namespace {
			return &userError{what: "the namespaces differ",
				why: fmt.Sprintf("%s says namespace: %s, the command line --namespace %s", d.name, d.spec.Namespace,
					namespace),
				next: "remove one of them; nothing was changed"}
		}
		return nil
	}
	if namespace == "" {
		e, _, err := a.findContext()
		if err != nil || e.Namespace == "" {
			return err
		}
		namespace = e.Namespace
	}
	if namespace == d.spec.Namespace {
		return nil
	}
	source, spec, err := descriptor.InNamespace(d.source, d.spec, namespace)
	if err != nil {
		return fmt.Errorf("name the namespace in %s: %w", d.name, err)
	}
	d.source, d.spec = source, spec
	return nil
}

// filesArgs wants files, or "-" alone.
func filesArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usageError(cmd, "FILE or - is missing")
	case len(args) > 1 && slices.Contains(args, "-"):
		return usageError(cmd, "- is standard input, and stands alone")
	}
	return nil
}

// readSource reads one byte more than a descriptor may have, so that Parse can
// say that it is too long.
func (a *app) readSource(file string) (source []byte, name string, err error) {
	if file == "-" {
		source, err = io.ReadAll(io.LimitReader(a.in, api.MaxDescriptorBytes+1))
		if err != nil {
			return nil, "", fmt.Errorf("read standard input: %w", err)
		}
		return source, "stdin", nil
	}
	f, err := os.Open(file)
	if err == nil {
		source, err = io.ReadAll(io.LimitReader(f, api.MaxDescriptorBytes+1))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, "", &userError{what: "the descriptor cannot be read", why: err.Error(),
			next: "give the path of a file, or - for standard input"}
	}
	return source, file, nil
}

// invalid makes the error of a descriptor that has errors: each with its place,
// on a terminal with the line itself.
func (a *app) invalid(name string, err error) error {
	var all descriptor.Errors
	if !errors.As(err, &all) {
		return &userError{what: name + " is not valid", why: err.Error()}
	}
	var b strings.Builder
	for _, line := range strings.Split(all.Error(), "\n") {
		b.WriteString("\n  " + line)
	}
	if a.isTerminal(a.err) {
		b.Reset()
		for _, e := range all {
			b.WriteString("\n  " + e.Error())
			if e.Excerpt != "" {
				b.WriteString("\n" + e.Excerpt)
			}
		}
	}
	what := "1 error"
	if len(all) > 1 {
		what = fmt.Sprintf("%d errors", len(all))
	}
	return &userError{what: name + " is not valid", why: what + b.String(),
		next: "the fields are described by: verge schema"}
}
