package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/cli/logmerge"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	logPage = 256 << 10
	// followWait is how long a request is held while following.
	followWait = 20 * time.Second
	// logPause is how long is waited before one who did not answer is asked again.
	logPause = time.Second
)

// logFlags of the logs command.
type logFlags struct {
	follow, prefix, noPrefix bool
	timestamps, previous     bool
	tail                     int
	since                    time.Duration
}

// options are those of the logs that are merged.
func (f logFlags) options(a *app, page int) logmerge.Options {
	return logmerge.Options{Since: f.since, Tail: f.tail, Previous: f.previous, Follow: f.follow, Page: page,
		Note: a.noteText}
}

func (a *app) logsCommand() *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "logs INSTANCE | service/APPLICATION.SERVICE | application/APPLICATION",
		Short: "Print logs of instances",
		Long: `Print what an instance wrote to standard output and standard error, over restarts.
The log of an instance that has moved begins with what it wrote on its former workers,
which keep it for a day. Older output may be gone.

For a service or application it prints the logs of all instances in order of time,
each line with its instance. With -f it follows all of them, new ones included.`,
		Example: "  verge logs guestbook.front.0 -f --tail 20\n  verge logs application/guestbook -f --tail 0\n" +
			"  verge logs service/guestbook.front --tail 5",
		Args: oneOrTwoArgs("INSTANCE, service/NAME or application/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name := kindInstance, args[0]
			if len(args) > 1 || strings.Contains(name, "/") {
				var err error
				if kind, name, err = ref(args); err != nil {
					return err
				}
			}
			if f.since < 0 {
				return usageError(cmd, "--since must not be negative")
			}
			if f.follow && f.previous {
				return usageError(cmd, "--previous is a finished run: it cannot be followed")
			}
			if f.prefix && f.noPrefix {
				return usageError(cmd, "give --prefix or --no-prefix, not both")
			}
			return a.withClient(func(c *client.Client) error {
				ctx := cmd.Context()
				switch kind {
				case kindApplication, kindService:
					return a.logsOf(ctx, c, kind, name, f)
				case kindInstance:
				default:
					return &userError{what: "not possible for this kind", why: strings.Join(args, " "),
						next: "it works for instance, service and application"}
				}
				i, err := findInstance(ctx, c, name)
				if err != nil {
					return err
				}
				st, err := logmerge.Open(ctx, c, i.ID, f.options(a, logPage))
				if ctx.Err() != nil {
					return nil //nolint:nilerr // the user has seen enough
				}
				if err != nil {
					return err
				}
				if f.prefix {
					st.Prefix = i.ID + " | "
				}
				failed, err := logmerge.Write(ctx, a.out, []*logmerge.Stream{st}, f.timestamps, a.noteText)
				if err == nil && !f.follow {
					err = missingLogs(failed, 1, i.App)
				}
				if err != nil || !f.follow {
					return err
				}
				r := &logReader{a: a, c: c, id: i.ID, to: a.out, last: true}
				if !f.prefix {
					return r.read(ctx, f)
				}
				lines := &prefixed{to: &shared{to: a.out}, prefix: i.ID + " | "}
				r.to = lines
				return errors.Join(r.read(ctx, f), lines.flush())
			})
		},
	}
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "follow the log until the instance is gone")
	cmd.Flags().IntVar(&f.tail, "tail", -1, "begin with this many last lines; -1: all that is kept")
	cmd.Flags().DurationVar(&f.since, "since", 0, "only lines of about this long, for example 10m")
	cmd.Flags().BoolVar(&f.timestamps, "timestamps", false,
		"start each line with the time the worker read it, to within 10 ms")
	cmd.Flags().BoolVarP(&f.previous, "previous", "p", false,
		"the log of the run before the present one, or of the last run if none runs")
	cmd.Flags().BoolVar(&f.prefix, "prefix", false,
		"start each line with its instance (default: for several instances)")
	cmd.Flags().BoolVar(&f.noPrefix, "no-prefix", false, "leave the instance out of lines")
	return cmd
}

// logReader reads the log of one instance.
type logReader struct {
	a    *app
	c    *client.Client
	id   string
	to   io.Writer
	skip bool // begin with what is written from now on
	// last says whether it ends when the instance does; otherwise somebody else ends
	// it.
	last   bool
	since  time.Duration
	silent bool // the user knows that it does not answer
	times  bool // when lines were written is wanted
	within bool // what was written last does not end a line
}

// stamped is the data of a chunk, with times before its lines if they are wanted.
func (r *logReader) stamped(chunk rpc.LogChunk, timestamps bool) []byte {
	if !timestamps {
		return chunk.Data
	}
	var out []byte
	offset := chunk.Next - int64(len(chunk.Data))
	for line := range bytes.Lines(chunk.Data) {
		if r.within {
			out = append(out, line...)
		} else {
			out = append(out, logmerge.Line{At: logmerge.TimeOf(chunk.Times, offset), Text: line}.Stamped()...)
		}
		r.within = !bytes.HasSuffix(line, []byte("\n"))
		offset += int64(len(line))
	}
	return out
}

// read prints the log and follows it until the instance is gone or ctx ends.
func (r *logReader) read(ctx context.Context, f logFlags) error {
	offset, wait := int64(0), time.Duration(0)
	if f.tail > 0 {
		offset = -int64(f.tail)
	}
	r.skip, r.since, r.times = f.tail == 0, f.since, f.timestamps
	for {
		asked := r.a.opts.Now()
		chunk, err := r.chunk(ctx, offset, wait)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the user has seen enough
		case err != nil && r.last && notFound(err):
			r.a.notef("%s is gone", clean(r.id))
			return nil
		case passing(err) || logmerge.NotPlaced(err) || notFound(err):
			r.lost(ctx, err)
			continue
		case err != nil:
			return err
		}
		r.silent = false
		if offset > 0 && chunk.Next-int64(len(chunk.Data)) < offset {
			// On another worker it is another log.
			r.a.notef("%s has a new log now, shown from its first line", clean(r.id))
			offset = 0
			continue
		}
		if chunk.Lost > 0 {
			r.a.notef("%d bytes of %s were rotated away", chunk.Lost, clean(r.id))
		}
		if _, err := r.to.Write(r.stamped(chunk, f.timestamps)); err != nil {
			return fmt.Errorf("write to standard output: %w", err)
		}
		offset = chunk.Next
		if len(chunk.Data) > 0 {
			continue
		}
		wait = followWait
		if r.last {
			if gone, err := r.a.ended(ctx, r.c, r.id); gone || err != nil && ctx.Err() == nil && !passing(err) {
				return err
			}
		}
		r.a.pace(ctx, asked)
	}
}

// chunk reads from an offset; the first time with skip it reads nothing, and tells
// where the log ends.
func (r *logReader) chunk(ctx context.Context, offset int64, wait time.Duration) (rpc.LogChunk, error) {
	if r.skip {
		end, err := logEnd(ctx, r.c, r.id)
		r.skip = err != nil
		return rpc.LogChunk{Next: end}, err
	}
	chunk, err := r.c.Instances.Logs(ctx, r.id,
		rpc.LogAsk{Offset: offset, Max: logPage, Wait: wait, Since: r.since, Times: r.times})
	if err == nil {
		r.since = 0
	}
	return chunk, err
}

// lost says once that the log cannot be read now, and waits a little.
func (r *logReader) lost(ctx context.Context, err error) {
	if !r.silent {
		r.silent = true
		r.a.notef("%s  %s: %s; trying again", r.a.clock(r.a.opts.Now()), clean(r.id), clean(firstLine(err)))
	}
	_ = r.a.opts.Sleep(ctx, logPause) // the loop looks at ctx
}

// logEnd is the offset of the end of a log.
func logEnd(ctx context.Context, c *client.Client, id string) (int64, error) {
	offset := int64(-1)
	for {
		chunk, err := c.Instances.Logs(ctx, id, rpc.LogAsk{Offset: offset, Max: logPage})
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
func (a *app) ended(ctx context.Context, c *client.Client, id string) (bool, error) {
	i, err := c.Instances.Get(ctx, id)
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
