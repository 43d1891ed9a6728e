package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/verge-edge/verge/api"
)

// readDescriptor reads FILE or "-" and checks it; its errors name the line.
func (a *app) readDescriptor(file string) ([]byte, *api.Application, []api.Warning, error) {
	source, name, err := a.readSource(file)
	if err != nil {
		return nil, nil, nil, err
	}
	spec, warnings, err := api.Parse(name, source)
	if err != nil {
		return nil, nil, nil, a.invalid(name, err)
	}
	for _, w := range warnings {
		a.notef("%s %s", a.paint(a.err, yellow, "warning:"), clean(w.String()))
	}
	return source, spec, warnings, nil
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
		return nil, "", &userError{what: "the descriptor cannot be read", why: err.Error(), next: "give the path of a file, or - for standard input"}
	}
	return source, file, nil
}

// invalid makes the error of a descriptor that has errors: each with its place,
// on a terminal with the line itself.
func (a *app) invalid(name string, err error) error {
	var all api.Errors
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
	return &userError{what: name + " is not valid", why: what + b.String(), next: "the fields are described by: verge schema"}
}
