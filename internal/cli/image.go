package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/engineapi"
)

// ImageStore are the images of this machine.
type ImageStore interface {
	List(ctx context.Context) ([]engineapi.ImageView, error)
	// Load imports an archive and returns the names of what was in it; name is for an
	// image that has none.
	Load(ctx context.Context, archive io.Reader, name string) ([]string, error)
	Remove(ctx context.Context, name string) error
	Close() error
}

func (a *app) imageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "image", Short: "Manage container images on this machine",
		Long: `Manage container images on this machine. Run it on the worker's machine, as root: it
talks to containerd there, without a worker or cluster. A container whose image is
here needs no registry.`,
		Args: cobra.ArbitraryArgs, RunE: group,
	}
	address := ""
	cmd.PersistentFlags().StringVar(&address, "containerd", "",
		"socket of containerd (default: /run/containerd/containerd.sock)")
	with := func(f func(ImageStore) error) error {
		s := a.opts.Images(address)
		defer s.Close() //nolint:errcheck // it has nothing open
		return f(s)
	}
	cmd.AddCommand(a.imageLoad(with), a.imageLs(with), a.imageRm(with))
	return cmd
}

type withImages func(func(ImageStore) error) error

func (a *app) imageLoad(with withImages) *cobra.Command {
	name := ""
	cmd := &cobra.Command{
		Use: "load FILE", Short: "Import images from an archive (of docker save, or OCI; - is stdin)",
		Args: cobra.ExactArgs(1),
		Example: "  verge image load shop.tar.gz\n  docker save shop:1 | verge image load -\n" +
			"  verge image load layout.tar --name shop:1",
		RunE: func(cmd *cobra.Command, args []string) error {
			in := a.in
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close() //nolint:errcheck // read only
				in = f
			}
			return with(func(s ImageStore) error {
				names, err := s.Load(cmd.Context(), in, name)
				if err != nil {
					return err
				}
				for _, n := range names {
					if err := a.printf("image %s loaded", clean(n)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name for an image that has none in the archive")
	return cmd
}

func (a *app) imageLs(with withImages) *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the images of this machine", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(func(s ImageStore) error {
				list, err := s.List(cmd.Context())
				if err != nil {
					return err
				}
				return listing[engineapi.ImageView]{
					kind: "image", name: func(v engineapi.ImageView) string { return clean(v.Name) },
					columns: []column[engineapi.ImageView]{
						{name: "image", cell: func(v engineapi.ImageView) cell { return text(clean(v.Name)) }},
						{name: "size", cell: func(v engineapi.ImageView) cell {
							return text(fmt.Sprintf("%.1fMB",
								float64(v.Size)/1e6))
						}},
						{name: "age", cell: func(v engineapi.ImageView) cell { return text(age(a.opts.Now().Sub(v.Created))) }},
						{name: "used by", cell: func(v engineapi.ImageView) cell { return text(clean(strings.Join(v.Users, ","))) }},
						{name: "digest", wide: true,
							cell: func(v engineapi.ImageView) cell { return text(clean(v.Digest)) }},
					},
				}.print(a, mode, list, false)
			})
		},
	}
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

func (a *app) imageRm(with withImages) *cobra.Command {
	return &cobra.Command{
		Use: "rm IMAGE…", Aliases: []string{"delete"}, Short: "Remove unused images", Args: cobra.MinimumNArgs(1),
		Example: "  verge image rm docker.io/library/shop:1",
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(func(s ImageStore) error {
				for _, arg := range args {
					if err := s.Remove(cmd.Context(), strings.TrimPrefix(arg, "image/")); err != nil {
						return err
					}
					if err := a.printf("image %s removed", clean(arg)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}
