package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cli/logmerge"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// maxFollowed is how many logs are followed at once: each holds a request open.
	maxFollowed = 50
	// minLogPage is the least that is asked for at a time of a log, in bytes.
	minLogPage = 16 << 10
)

// logsOf prints the logs of all instances of an application or a service.
func (a *app) logsOf(ctx context.Context, c *client.Client, kind, name string, f logFlags) error {
	app, service, dotted := strings.Cut(name, ".")
	if dotted != (kind == kindService) {
		return &userError{what: "not a name of this kind", why: kind + "/" + name,
			next: "write application/APPLICATION or service/APPLICATION.SERVICE"}
	}
	if _, err := c.Applications.Get(ctx, app); err != nil {
		return err
	}
	list, err := c.Instances.List(ctx, app, service)
	if err != nil {
		return err
	}
	m := &manyLogs{a: a, c: c, f: f, out: &shared{to: a.out}, app: app, service: service, known: map[string]bool{},
		open: map[string]context.CancelFunc{}}
	for _, i := range list {
		m.width = max(m.width, len(i.ID))
	}
	if f.follow {
		return m.follow(ctx)
	}
	if len(list) == 0 {
		a.notef("no instances")
	}
	failed := 0
	var streams []*logmerge.Stream
	page := max(minLogPage, logPage/max(1, len(list)))
	for _, i := range list {
		st, err := logmerge.Open(ctx, c, i.ID, f.options(a, page))
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the user has seen enough
		}
		if err != nil {
			failed++
			a.notef("%s: %s", clean(i.ID), clean(firstLine(err)))
			continue
		}
		if !f.noPrefix {
			st.Prefix = fmt.Sprintf("%-*s | ", m.width, i.ID)
		}
		streams = append(streams, st)
	}
	broken, err := logmerge.Write(ctx, a.out, streams, f.timestamps, a.noteText)
	if err != nil {
		return err
	}
	return missingLogs(failed+broken, len(list), app)
}

// missingLogs is the error of a command that could not read so many of all logs, or not to
// their end; nil for none.
func missingLogs(failed, all int, app string) error {
	if failed == 0 {
		return nil
	}
	return &userError{what: "not all logs could be read", why: fmt.Sprintf("%d of %d are missing", failed, all),
		next: "verge get instances --app " + app}
}

// manyLogs prints the logs of several instances.
type manyLogs struct {
	a            *app
	c            *client.Client
	f            logFlags
	out          *shared
	app, service string
	width        int // of the longest id at the beginning

	// Of the one who watches.
	known   map[string]bool               // instances that there are
	open    map[string]context.CancelFunc // those that are followed
	told    bool                          // that there are too many
	readers sync.WaitGroup
}

// one prints and follows the log of one instance.
func (m *manyLogs) one(ctx context.Context, id string) error {
	r := &logReader{a: m.a, c: m.c, id: id}
	lines := &prefixed{to: m.out, prefix: fmt.Sprintf("%-*s | ", m.width, id)}
	if m.f.noPrefix {
		lines.prefix = ""
	}
	r.to = lines
	return errors.Join(r.read(ctx, m.f), lines.flush())
}

// errNothingLeft ends the watch when the application is gone.
var errNothingLeft = errors.New("nothing left to follow")

// follow prints the logs of all that there are and of all that come, until the
// application is gone or ctx ends.
func (m *manyLogs) follow(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	live := false
	err := m.a.watch(ctx, m.c.WatchOn, "instances", func(e apiv1.WatchEvent) error {
		switch e.Type {
		case apiv1.WatchBegin:
			if live = !e.Full; e.Full {
				clear(m.known)
			}
		case apiv1.WatchPut:
			var i wire.Instance
			if err := json.Unmarshal(e.Object, &i); err != nil {
				return fmt.Errorf("read the server's list of %s: %w", e.Key, err)
			}
			if i.App == m.app && (m.service == "" || i.Service == m.service) {
				m.known[i.ID] = true
				m.begin(ctx, i.ID, stop)
			}
			return nil
		case apiv1.WatchSynced:
			live = true
		case apiv1.WatchGone:
			delete(m.known, e.Key)
		}
		if !live {
			return nil
		}
		return m.leave(ctx)
	})
	if errors.Is(err, errNothingLeft) {
		err = nil
	}
	cause := context.Cause(ctx)
	stop(nil)
	m.readers.Wait()
	if err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// begin follows an instance, unless it is followed already or too many are. An
// error ends everything.
func (m *manyLogs) begin(ctx context.Context, id string, fail context.CancelCauseFunc) {
	if m.open[id] != nil {
		return
	}
	if len(m.open) >= maxFollowed {
		if !m.told {
			m.told = true
			m.a.notef("only %d instances can be followed at once; the others of %s are left out", maxFollowed,
				clean(m.app))
		}
		return
	}
	ctx, m.open[id] = context.WithCancel(ctx)
	m.readers.Go(func() {
		if err := m.one(ctx, id); err != nil {
			fail(err)
		}
	})
}

// leave ends the reading of those that are gone.
func (m *manyLogs) leave(ctx context.Context) error {
	for id, end := range m.open {
		if !m.known[id] {
			end()
			delete(m.open, id)
			m.a.notef("%s is gone", clean(id))
		}
	}
	if len(m.known) > 0 {
		return nil
	}
	if _, err := m.c.Applications.Get(ctx, m.app); notFound(err) {
		return errNothingLeft
	}
	return nil
}

// shared is an output of several writers. What is written at once stays together.
type shared struct {
	mu sync.Mutex
	to io.Writer // guarded by mu
}

// Write implements io.Writer.
func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}

// prefixed writes whole lines, each with something before it.
type prefixed struct {
	to     io.Writer
	prefix string
	rest   []byte // of a line whose end has not come yet
}

// Write implements io.Writer.
func (w *prefixed) Write(p []byte) (int, error) {
	var out bytes.Buffer
	all := slices.Concat(w.rest, p)
	for {
		n := bytes.IndexByte(all, '\n')
		if n < 0 && len(all) < logmerge.MaxLine {
			break
		}
		line := all
		if n >= 0 {
			line = all[:n]
		}
		out.WriteString(w.prefix)
		out.Write(line)
		out.WriteByte('\n')
		all = all[min(len(line)+1, len(all)):]
	}
	w.rest = bytes.Clone(all)
	if out.Len() == 0 {
		return len(p), nil
	}
	if _, err := w.to.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush writes the line that has no end.
func (w *prefixed) flush() error {
	if len(w.rest) == 0 {
		return nil
	}
	_, err := w.Write([]byte("\n"))
	return err
}
