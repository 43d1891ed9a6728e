package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// objectHeader names the object that a request refers to.
const objectHeader = "Verge-Object"

// invokeFlags are those of an invocation.
type invokeFlags struct {
	in       rpc.Invocation
	data     string
	file     string
	header   []string
	object   string
	timeout  time.Duration
	headings bool
}

func (a *app) fnInvoke() *cobra.Command {
	f := invokeFlags{}
	cmd := &cobra.Command{
		Use: "invoke NAME [-]", Short: "Send a request to a function and print the answer",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && args[1] == "-" {
				return nil
			}
			return oneArg("NAME")(cmd, args)
		},
		Long: fmt.Sprintf(`Send a request to a function, or to any HTTP service, and print the body of the
answer. NAME is an application or APPLICATION.SERVICE.

The request goes through the server to a worker of the service, whose router passes
it to an instance: no port need be reachable from here, and a sleeping service wakes.
At most %d KiB go each way. Name larger data with --object; the function reads it as
a file below /objects.

Exit code 1: the status is 400 or more.`, rpc.MaxInvokeBytes>>10),
		Example: "  verge fn invoke hello --path '/?name=you'\n  verge fn invoke resize --file cat.jpg > small.jpg\n" +
			"  echo '{}' | verge fn invoke hello -\n  verge fn invoke resize --object default/cat.jpg",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.read(a, cmd, args); err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error { return a.invoke(cmd.Context(), c, args[0], &f) })
		},
	}
	cmd.Flags().StringVarP(&f.in.Method, "method", "X", "", "method (default: GET, with a body POST)")
	cmd.Flags().StringVar(&f.in.Path, "path", "/", "path and query")
	cmd.Flags().StringVar(&f.in.Port, "port", "", "name of a port (default: the first)")
	cmd.Flags().StringVarP(&f.data, "data", "d", "", "body of the request")
	cmd.Flags().StringVar(&f.file, "file", "", "file with the body of the request")
	cmd.Flags().StringVar(&f.object, "object", "", "object NAMESPACE/NAME for the request to refer to, in its header "+
		objectHeader)
	cmd.Flags().StringArrayVarP(&f.header, "header", "H", nil, "header of the request, as Name: value")
	cmd.Flags().DurationVar(&f.timeout, "timeout", rpc.MaxInvokeMs*time.Millisecond,
		"how long the answer may take, at most a minute")
	cmd.Flags().BoolVarP(&f.headings, "include", "i", false, "print status and headers of the answer too")
	return cmd
}

// read makes the request of flags and arguments.
func (f *invokeFlags) read(a *app, cmd *cobra.Command, args []string) (err error) {
	given := 0
	for _, set := range []bool{cmd.Flags().Changed("data"), f.file != "", len(args) == 2} {
		if set {
			given++
		}
	}
	if given > 1 {
		return usageError(cmd, "give the body by one of --data, --file and -")
	}
	switch {
	case f.timeout < time.Millisecond || f.timeout > rpc.MaxInvokeMs*time.Millisecond:
		return usageError(cmd, "--timeout is at most a minute")
	case len(args) == 2:
		f.in.Body, err = io.ReadAll(io.LimitReader(a.in, rpc.MaxInvokeBytes+1))
	case f.file != "":
		f.in.Body, err = os.ReadFile(f.file)
	default:
		f.in.Body = []byte(f.data)
	}
	if err != nil {
		return &userError{what: "the body cannot be read", why: err.Error(),
			next: "give another --file, or - for standard input"}
	}
	if len(f.in.Body) > rpc.MaxInvokeBytes {
		return &userError{what: "the body is too large",
			why:  fmt.Sprintf("the limit is %d KiB", rpc.MaxInvokeBytes>>10),
			next: "verge object put NAME FILE, then: verge fn invoke " + args[0] + " --object default/NAME"}
	}
	f.in.TimeoutMs = int(f.timeout / time.Millisecond)
	f.in.Header = map[string][]string{}
	for _, h := range f.header {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return usageError(cmd, "%q is not Name: value", h)
		}
		f.in.Header[http.CanonicalHeaderKey(name)] = append(f.in.Header[http.CanonicalHeaderKey(name)],
			strings.TrimSpace(value))
	}
	if f.object != "" {
		f.in.Header[objectHeader] = []string{f.object}
	}
	return nil
}

func (a *app) invoke(ctx context.Context, c *client.Client, name string, f *invokeFlags) error {
	id, err := someInstance(ctx, c, name)
	if err != nil {
		return err
	}
	got, err := c.Exec.Invoke(ctx, id, f.in)
	if err != nil {
		return err
	}
	if f.headings {
		if err := a.printf("%d %s", got.Status, http.StatusText(got.Status)); err != nil {
			return err
		}
		for _, field := range slices.Sorted(maps.Keys(got.Header)) {
			if err := a.printf("%s: %s", clean(field), clean(strings.Join(got.Header[field], ", "))); err != nil {
				return err
			}
		}
		if err := a.printf(""); err != nil {
			return err
		}
	}
	if _, err := a.out.Write(got.Body); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	if got.Cut {
		a.notef("the answer is cut off after %d KiB", rpc.MaxInvokeBytes>>10)
	}
	if got.Status >= http.StatusBadRequest {
		return &userError{what: "the answer is an error",
			why: fmt.Sprintf("%d %s", got.Status, http.StatusText(got.Status)), next: "verge logs " + id}
	}
	return nil
}

// someInstance is an instance of a service, ready if one is.
func someInstance(ctx context.Context, c *client.Client, name string) (string, error) {
	appName, service, _ := strings.Cut(name, ".")
	list, err := c.Instances.List(ctx, appName, service)
	if err != nil && !notFound(err) {
		return "", err
	}
	// One that sleeps is as good as one that is ready: its worker wakes it.
	slices.SortFunc(list, func(a, b apiv1.InstanceView) int {
		return cmp.Or(cmp.Compare(rankOf(&a), rankOf(&b)), strings.Compare(a.ID, b.ID))
	})
	for _, i := range list {
		if i.Worker != "" || i.Cluster != "" {
			return i.ID, nil
		}
	}
	if len(list) > 0 {
		return "", &userError{what: "the function has no place yet", why: list[0].ID + ": " + clean(list[0].Reason),
			next: "verge describe instance/" + list[0].ID}
	}
	return "", &userError{what: "no such function", why: name,
		next: "list them with: verge get services; create one with: verge fn new NAME"}
}

func rankOf(i *apiv1.InstanceView) int {
	switch {
	case i.Ready:
		return 0
	case i.Asleep:
		return 1
	case i.Worker != "":
		return 2
	}
	return 3
}
