package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/filecopy"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func (a *app) cpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cp SOURCE DESTINATION",
		Short: "Copy a file or directory from or to an instance",
		Long: "Copy a file or directory from or to a running instance. One of the two is INSTANCE:PATH, with a path\n" +
			"relative to its working directory, or absolute. In a container that is any file that its user may read\n" +
			"or write; in others the working directory and volumes. The instance needs no programs for it. A " +
			"copy into\n" +
			"an existing directory keeps its name; DIRECTORY/. stands for the contents of a directory.\n" +
			"A file is replaced only when all of it has arrived. Links and special files are left out; owners " +
			"are not kept.",
		Example: "  verge cp guestbook.store.0:data/book.db .\n" +
			"  verge cp ./pages guestbook.web.1:/usr/share/nginx/html",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, to := copyEnd(args[0]), copyEnd(args[1])
			if (from.instance == "") == (to.instance == "") {
				return usageError(cmd, "one of %s and %s must be INSTANCE:PATH, the other a path of this machine",
					args[0], args[1])
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			name, err := instanceRef([]string{from.instance + to.instance})
			if err != nil {
				return err
			}
			i, err := findInstance(cmd.Context(), c, name)
			if err != nil {
				return err
			}
			ctx, unhook := signal.NotifyContext(cmd.Context(), syscall.SIGHUP, syscall.SIGQUIT)
			defer unhook()
			if from.instance == "" {
				return a.copyTo(ctx, c, i.ID, from.path, to.path)
			}
			return a.copyFrom(ctx, c, i.ID, from.path, to.path)
		},
	}
}

// copyPlace is one end of a copy: a path of an instance, or of this machine.
type copyPlace struct{ instance, path string }

var remotePath = pattern.Lazy(`^((?:[a-z]+/)?[a-z0-9][a-z0-9.-]*):(.*)$`)

// copyEnd reads INSTANCE:PATH or a path. What has a slash or dot before the colon is a
// path: ./a:b.
func copyEnd(arg string) copyPlace {
	m := remotePath().FindStringSubmatch(arg)
	if m == nil {
		return copyPlace{path: arg}
	}
	if m[2] == "" {
		m[2] = "."
	}
	return copyPlace{instance: m[1], path: m[2]}
}

// localRoot is the directory that a path of this machine is in, and its name there.
func localRoot(p string) (root *os.Root, name string, err error) {
	abs, err := filepath.Abs(p)
	if err != nil {
		return nil, "", &userError{what: "not a path", why: err.Error()}
	}
	root, err = os.OpenRoot(filepath.Dir(abs))
	if err != nil {
		return nil, "", &userError{what: "no such directory on this machine", why: err.Error()}
	}
	if name = filepath.Base(abs); name == string(filepath.Separator) {
		name = "."
	}
	return root, name, nil
}

// contentOnly: p names what is in a directory, not the directory.
func contentOnly(p string) bool { return p == "." || strings.HasSuffix(p, "/.") }

// copyTo copies local to a path of the instance.
func (a *app) copyTo(ctx context.Context, c *client.Client, id wire.InstanceID, local, remote string) error {
	start := rpc.CopyStart{Key: wire.NewID(), Path: remote, Into: true}
	if !contentOnly(local) {
		abs, err := filepath.Abs(local)
		if err != nil {
			return &userError{what: "not a path", why: err.Error()}
		}
		start.Name = filepath.Base(abs)
	}
	// Who names a link means what it leads to.
	real, err := filepath.EvalSymlinks(local)
	if err != nil {
		return &userError{what: "there is nothing to copy", why: err.Error()}
	}
	root, name, err := localRoot(real)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // read only
	ctx, give := context.WithCancel(ctx)
	defer give()
	e := &execution{a: a, c: c, give: give}
	if e.session, err = twice(ctx, func() (string, error) { return c.Exec.Copy(ctx, id, start) }); err != nil {
		return err
	}
	defer e.end(context.WithoutCancel(ctx))
	r, w := io.Pipe()
	packed := make(chan error, 1)
	var left filecopy.Summary
	go func() {
		var err error
		left, err = filecopy.Pack(ctx, w, root, name)
		_ = w.CloseWithError(err) // of a pipe it never fails; nil is the end
		packed <- err
	}()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		e.input(ctx, r, false)
		// Nobody takes more, for which the output has the reason.
		_ = r.CloseWithError(errNotTaken)
	}()
	last, sum, err := e.copied(ctx, io.Discard)
	give()
	_ = r.CloseWithError(errNotTaken)
	perr := <-packed
	<-sent
	switch {
	case perr != nil && !errors.Is(perr, errNotTaken) && !errors.Is(perr, context.Canceled):
		return notCopied(perr.Error())
	case err != nil:
		return err
	case last.Exit == nil:
		return notCopied(last.Why)
	}
	sum.Left, sum.Examples = left.Left, left.Examples
	a.notef("copied to %s: %s", id, clean(sum.String()))
	return nil
}

var errNotTaken = errors.New("the instance accepts no more")

// copyFrom copies a path of the instance to local.
func (a *app) copyFrom(ctx context.Context, c *client.Client, id wire.InstanceID, remote, local string) error {
	target := filecopy.Target{Within: strings.HasSuffix(local, "/")}
	var err error
	if info, serr := os.Stat(local); serr == nil && info.IsDir() {
		if target.Root, err = os.OpenRoot(local); err != nil {
			return &userError{what: "it is not writable", why: err.Error()}
		}
		target.Path = "."
	} else if target.Root, target.Path, err = localRoot(local); err != nil {
		return err
	}
	defer target.Root.Close() //nolint:errcheck // what was written was closed
	if !contentOnly(remote) {
		target.Name = path.Base(path.Clean("/" + remote))
	}
	ctx, give := context.WithCancel(ctx)
	defer give()
	e := &execution{a: a, c: c, give: give}
	start := rpc.CopyStart{Key: wire.NewID(), Path: remote}
	if e.session, err = twice(ctx, func() (string, error) { return c.Exec.Copy(ctx, id, start) }); err != nil {
		return err
	}
	defer e.end(context.WithoutCancel(ctx))
	r, w := io.Pipe()
	unpacked := make(chan error, 1)
	var sum filecopy.Summary
	go func() {
		var err error
		if sum, err = filecopy.Unpack(ctx, r, target); err == nil {
			_, err = io.Copy(io.Discard, r) // what fills its last block
		}
		_ = r.CloseWithError(err) // of a pipe it never fails; nil is no more
		unpacked <- err
	}()
	last, left, err := e.copied(ctx, w)
	switch {
	case err == nil && last.Exit == nil:
		err = notCopied(last.Why)
		fallthrough
	case err != nil:
		_ = w.CloseWithError(errBrokeOff)
	default:
		_ = w.Close() // of a pipe it never fails
	}
	uerr := <-unpacked
	switch {
	case uerr != nil && !errors.Is(uerr, errBrokeOff) && ctx.Err() == nil:
		return notCopied(uerr.Error())
	case err != nil:
		return err
	}
	sum.Left, sum.Examples = left.Left, left.Examples
	a.notef("copied from %s: %s", id, clean(sum.String()))
	return nil
}

// notCopied is the error of a failed copy; files that have arrived are complete.
func notCopied(why string) error {
	return &userError{what: "the copy is incomplete", why: why,
		next: "choose another path (see verge cp --help), or copy it again"}
}

var errBrokeOff = errors.New("the copy broke off")

// copied hands on what comes until the session has ended, and reads what the other
// end says of it.
func (e *execution) copied(ctx context.Context, out io.Writer) (rpc.ExecOutput, filecopy.Summary, error) {
	var said bytes.Buffer
	e.out, e.problems = out, &said
	last, err := e.drain(ctx)
	var sum filecopy.Summary
	if err == nil && last.Exit != nil {
		if jerr := json.Unmarshal(said.Bytes(), &sum); jerr != nil {
			return last, sum, fmt.Errorf("the worker's report of the copy is unreadable: %w", jerr)
		}
	}
	return last, sum, err
}
