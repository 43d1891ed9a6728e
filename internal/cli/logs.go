package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	logPage = 256 << 10
	// followWait is how long a request is held while following.
	followWait = 20 * time.Second
)

func (a *app) logsCommand() *cobra.Command {
	follow, tail := false, -1
	cmd := &cobra.Command{
		Use:     "logs INSTANCE",
		Short:   "Print what an instance has written",
		Example: "  verge logs guestbook.front.0 -f --tail 20",
		Args:    oneArg("INSTANCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := instanceRef(args)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			i, err := findInstance(cmd.Context(), c, name)
			if err != nil {
				return err
			}
			return a.logs(cmd.Context(), c, i.ID, follow, tail)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is written from now on, until the instance is gone")
	cmd.Flags().IntVar(&tail, "tail", -1, "begin with the last so many lines; -1: all that is kept")
	return cmd
}

func (a *app) logs(ctx context.Context, c *rest.Client, id string, follow bool, tail int) error {
	var offset int64
	if tail > 0 {
		offset = -int64(tail)
	}
	if tail == 0 {
		end, err := logEnd(ctx, c, id)
		if err != nil {
			return err
		}
		offset = end
	}
	var wait time.Duration
	for {
		asked := a.opts.Now()
		chunk, err := c.Logs(ctx, id, offset, logPage, wait)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the user has seen enough
		}
		if err != nil {
			return err
		}
		if chunk.Lost > 0 {
			a.notef("%d bytes were rotated away", chunk.Lost)
		}
		if _, err := a.out.Write(chunk.Data); err != nil {
			return fmt.Errorf("write to standard output: %w", err)
		}
		offset = chunk.Next
		if len(chunk.Data) > 0 {
			continue
		}
		if !follow {
			return nil
		}
		wait = followWait
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the user has seen enough
		}
		if gone, err := a.ended(ctx, c, id); gone || err != nil {
			return err
		}
		a.pace(ctx, asked)
	}
}

// logEnd is the offset of the end of a log.
func logEnd(ctx context.Context, c *rest.Client, id string) (int64, error) {
	offset := int64(-1)
	for {
		chunk, err := c.Logs(ctx, id, offset, logPage, 0)
		if err != nil {
			return 0, err
		}
		offset = chunk.Next
		if len(chunk.Data) == 0 {
			return offset, nil
		}
	}
}

// ended says whether an instance will write no more.
func (a *app) ended(ctx context.Context, c *rest.Client, id string) (bool, error) {
	i, err := c.Instance(ctx, id)
	if notFound(err) {
		a.notef("%s is gone", clean(id))
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if i.State == wire.Terminated || i.State == wire.Failed {
		a.notef("%s is %s", clean(id), clean(string(i.State)))
		return true, nil
	}
	return false, nil
}
