package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

const kindObject = "object"

func (a *app) objectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "object", Aliases: []string{"objects"}, Short: "Put, get, list and remove objects",
		Args: cobra.ArbitraryArgs, RunE: group,
		Long: `Put, get, list and remove objects: files with a name in a namespace. Instances read
them at $VERGE_OBJECTS/NAMESPACE/NAME, and functions are made of them.

An object put at the root is for all clusters that run something of the namespace:
they and their workers keep copies of what was read. One put at a cluster (with a
context of it) belongs to that cluster alone, and hides the root's object of that
name. An object is replaced as a whole or not at all.`,
	}
	cmd.AddCommand(a.objectPut(), a.objectGet(), a.objectList(), a.objectRemove())
	return cmd
}

func (f *namespaceFlags) ofObject(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "",
		"namespace of the object (default: that of the context, else default)")
}

func (a *app) objectPut() *cobra.Command {
	kind, f := "", namespaceFlags{}
	cmd := &cobra.Command{
		Use: "put NAME FILE", Short: "Store a file under a name",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError(cmd, "give NAME FILE")
			}
			return nil
		},
		Long: fmt.Sprintf(`Store a file under a name, replacing the former object; "-" is standard input. A
name has letters, digits and . _ - =, with / between its parts. At most %d GiB.`, wire.MaxObjectBytes>>30),
		Example: "  verge object put functions/hello.wasm hello.wasm\n  tar cz photos | verge object put photos.tgz -",
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, err := f.one(a)
			if err != nil {
				return err
			}
			in := client.ObjectUpload{Namespace: namespace, Name: args[0], Type: kind, Size: -1, Body: a.in}
			if args[1] != "-" {
				file, err := openObject(args[1], &in)
				if err != nil {
					return err
				}
				defer func() { _ = file.Close() }() // it was only read
			}
			return a.withClient(func(c *client.Client) error {
				v, err := c.Objects.Put(cmd.Context(), in)
				if err != nil {
					return err
				}
				return a.printf("object/%s of namespace %s put at %s: %s, %s", v.Name, v.Namespace, v.Origin,
					bytesText(v.Size), short(v.Digest))
			})
		},
	}
	cmd.Flags().StringVar(&kind, "type", "", "media type (default: by the file's extension)")
	f.ofObject(cmd)
	return cmd
}

// bytesText is a size as people read it, exact where it is small.
func bytesText(n int64) string {
	if n < 1<<20 {
		return strconv.FormatInt(n, 10) + " B"
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// short is as much of a digest as people compare.
func short(digest string) string { return digest[:min(len(digest), len("sha256:")+12)] }

// openObject fills in what a file says about itself. Its digest is sent along, so
// that what arrives is known to be that.
func openObject(path string, in *client.ObjectUpload) (*os.File, error) {
	unread := func(err error) error {
		return &userError{what: "the file cannot be read", why: err.Error(),
			next: "give the path of a file, or - for standard input"}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, unread(err)
	}
	sum := sha256.New()
	fi, err := file.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err == nil {
		_, err = io.Copy(sum, file)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, unread(errors.Join(err, file.Close()))
	}
	in.Size, in.Digest, in.Body = fi.Size(), hex.EncodeToString(sum.Sum(nil)), file
	if in.Type == "" {
		in.Type = mime.TypeByExtension(filepath.Ext(path))
	}
	return file, nil
}

func (a *app) objectGet() *cobra.Command {
	f := namespaceFlags{}
	cmd := &cobra.Command{
		Use: "get NAME [FILE]", Short: "Write an object to a file, or to standard output",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return oneArg("NAME")(cmd, args)
		},
		Long: `Write an object to a file, or to standard output. The file appears complete, with the
content that was put, or not at all.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, err := f.one(a)
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				got, err := c.Objects.Get(cmd.Context(), namespace, args[0], "")
				if err != nil {
					return err
				}
				defer func() { _ = got.Body.Close() }() // it was read, or that has failed
				if got.View.Stale {
					a.notef("note: the root is unreachable, so this may be out of date")
				}
				if len(args) == 1 {
					return receive(a.out, got)
				}
				if err := saveObject(args[1], got); err != nil {
					return err
				}
				return a.printf("object/%s of namespace %s written to %s: %s, %s", got.View.Name, got.View.Namespace,
					args[1], bytesText(got.View.Size), short(got.View.Digest))
			})
		},
	}
	f.ofObject(cmd)
	return cmd
}

// receive writes what comes, and says if it is not what the object is.
func receive(w io.Writer, got client.ObjectContent) error {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), got.Body)
	if err == nil && (n != got.View.Size || "sha256:"+hex.EncodeToString(sum.Sum(nil)) != got.View.Digest) {
		err = errors.New("its content is damaged")
	}
	if err != nil {
		return &userError{what: "the object is incomplete", why: err.Error(), next: "try again"}
	}
	return nil
}

// saveObject writes an object beside path, and gives it its name when it is whole.
func saveObject(path string, got client.ObjectContent) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return &userError{what: "the file cannot be written", why: err.Error(), next: "choose another place"}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	if err := receive(tmp, got); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := errors.Join(tmp.Chmod(0o644), tmp.Close(),
		os.Rename(tmp.Name(), path)); err != nil { //nolint:gosec // an ordinary file of whoever asked for it
		return &userError{what: "the file cannot be written", why: err.Error(), next: "choose another place"}
	}
	return nil
}

func (a *app) objectList() *cobra.Command {
	mode, f := "", namespaceFlags{}
	cmd := &cobra.Command{
		Use: "ls [PREFIX]", Aliases: []string{"list"}, Short: "List the objects at the root or at a cluster",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneArg("PREFIX")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.resolve(a, ""); err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				all, err := c.Objects.List(cmd.Context(), f.namespace)
				kept := all[:0]
				for _, v := range all {
					if len(args) == 0 || strings.HasPrefix(v.Name, args[0]) {
						a.trouble(v.Problem)
						kept = append(kept, v)
					}
				}
				return show(a, a.objects(), mode, "", false)(kept, err)
			})
		},
	}
	f.add(cmd)
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

func (a *app) objects() listing[apiv1.ObjectView] {
	type view = apiv1.ObjectView
	return listing[view]{kind: kindObject, name: func(v view) string { return v.Name }, columns: []column[view]{
		{name: "object", cell: func(v view) cell { return text(v.Name) }},
		{name: "namespace", cell: func(v view) cell { return text(v.Namespace) }},
		{name: "size", cell: func(v view) cell {
			if v.Problem != "" {
				return cell{"cannot be read", red}
			}
			return text(bytesText(v.Size))
		}},
		{name: "origin", cell: func(v view) cell {
			if v.Copy {
				return text(v.Origin + " (copy)")
			}
			return text(v.Origin)
		}},
		{name: "changed", cell: func(v view) cell { return text(a.since(v.Updated)) }},
		{name: "digest", cell: func(v view) cell { return text(short(v.Digest)) }},
		{name: "type", wide: true, cell: func(v view) cell { return text(v.Type) }},
		{name: "by", wide: true, cell: func(v view) cell { return text(v.By) }},
	}}
}

func (a *app) objectRemove() *cobra.Command {
	f := namespaceFlags{}
	cmd := &cobra.Command{
		Use: "rm NAME", Aliases: []string{"delete"}, Short: "Remove an object", Args: oneArg("NAME"),
		Long: `Remove an object. Workers and clusters drop their copies when they next ask for it. At
a cluster this removes its own object or, if it has none of that name, its copy of the
root's, which the next read fetches again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, err := f.one(a)
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				return a.removeObject(cmd.Context(), c, namespace,
					args[0])
			})
		},
	}
	f.ofObject(cmd)
	return cmd
}

func (a *app) removeObject(ctx context.Context, c *client.Client, namespace, name string) error {
	v, err := c.Objects.Remove(ctx, namespace, name)
	if err != nil {
		return err
	}
	return a.printf("object/%s of namespace %s removed at %s", v.Name, v.Namespace,
		map[bool]string{true: "this cluster, which had a copy", false: v.Origin}[v.Copy])
}
