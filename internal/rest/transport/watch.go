package transport

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// watchSilence is how long a server may be silent: three times as long as it is
	// when there is nothing to tell.
	watchSilence = 3 * rest.WatchKeepAlive
	// Pauses before a watch is tried again.
	firstWatchPause   = 200 * time.Millisecond
	longestWatchPause = 5 * time.Second
	maxWatchLine      = 16 << 20
)

// Watch calls tell with how everything of some kinds is, and with every change
// from then on: see apiv1.WatchEvent. A connection that is lost is made again, and
// nothing is missed. It returns when ctx ends, when tell returns an error, or when
// the server refuses. The first connection is not tried again, unless the server has
// answered something else already (begun): one that goes away in between costs nothing.
func (c *Conn) Watch(ctx context.Context, begun bool, kinds []string, tell func(apiv1.WatchEvent) error) error {
	w := &watching{c: c, tell: tell, begun: begun, path: rest.Watch.Path + "?" +
		url.Values{"kinds": {strings.Join(kinds, ",")}}.Encode()}
	pause, down := firstWatchPause, false
	for {
		err := w.once(ctx)
		var told *toldError
		var p *wire.Problem
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &told):
			return told.error
		case !w.begun:
			return err
		case errors.As(err, &p) && p.Code == rest.CodeTooManyWatches && !w.watched:
			return err // that is not a server that was lost
		case errors.As(err, &p) && !p.MayPass():
			return err
		}
		if w.heard {
			pause, down = firstWatchPause, false
		}
		if err != nil && !down {
			down = true
			if err := w.tell(apiv1.WatchEvent{Type: apiv1.WatchLost, Why: err.Error()}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, longestWatchPause)
	}
}

// watching is a watch over several connections.
type watching struct {
	c    *Conn
	path string
	tell func(apiv1.WatchEvent) error
	last string // id of the last event
	// begun: the server has answered once; heard: it was by this connection.
	// watched: a watch of it was once.
	begun, heard, watched bool
}

// toldError is what the one who is told has returned.
type toldError struct{ error }

// once watches over one connection.
func (w *watching) once(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(watchSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	w.heard = false
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.c.base+w.path, nil)
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Accept", rest.WatchType)
	if w.last != "" {
		req.Header.Set("Last-Event-ID", w.last)
	}
	if w.c.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.c.token)
	}
	resp, err := w.c.http.Do(req)
	if err != nil {
		return w.failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || err != nil || media != rest.WatchType {
		data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // it is an error already
		return w.c.problem(resp, data)
	}
	w.begun, w.watched = true, true
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxWatchLine)
	var e apiv1.WatchEvent
	var data []byte
	id, hasID := "", false
	for lines.Scan() {
		silence.Reset(watchSilence)
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			id, hasID = value, true
		case "event":
			e.Type = value
		case "data":
			data = append(data, value...)
		}
		if lines.Text() != "" {
			continue
		}
		if hasID {
			w.last, hasID = id, false
		}
		if e.Type == "" {
			continue
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return w.c.unreadable(err)
		}
		w.heard = true
		if err := w.tell(e); err != nil {
			return &toldError{err}
		}
		e, data = apiv1.WatchEvent{}, nil
	}
	return w.failed(ctx, lines.Err())
}

var errSilent = errors.New("nothing was heard of it")

func (w *watching) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		err = context.DeadlineExceeded
	}
	return w.c.transportError(err)
}
