package hooks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
	// aimless is how long a hook whose queue is empty looks at nothing.
	aimless = time.Hour
)

// Backoff is how long to wait after so many failures in a row (1 or more): a second,
// doubling to 5 minutes, less up to a fifth by chance (0 to 1), so that those who wait
// for one receiver do not come at once. A receiver that says how long is waited for, up
// to the 5 minutes.
func Backoff(failures int, chance float64, asked time.Duration) time.Duration {
	d := lastRetry
	if failures < 10 {
		d = min(firstRetry<<max(failures-1, 0), lastRetry)
	}
	d -= time.Duration(chance * float64(d) / 5)
	return min(max(d, asked), lastRetry)
}

// attempt is what came of one.
type attempt struct {
	status int // 0: there was no answer
	err    error
	after  time.Duration // the receiver asked for
	body   []byte        // of the answer, bounded
	cut    bool          // it is longer than that
}

func (a *attempt) ok() bool { return a.err == nil && a.status/100 == 2 }

// String says what came of it, without a word of the receiver's.
func (a *attempt) String() string {
	switch {
	case a.err != nil:
		return a.err.Error()
	case a.status/100 == 3:
		return fmt.Sprintf("%d %s: it is not followed elsewhere", a.status, http.StatusText(a.status))
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)))
}

// post sends a message once.
func (k *Keeper) post(ctx context.Context, client *http.Client, rec *record.Hook, id, body string,
	most int64) (a attempt) {
	now := k.o.Now()
	keys, err := k.open(rec, now)
	if err != nil {
		return attempt{err: err}
	}
	limit := time.Duration(rec.WaitSeconds) * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, rec.URL, strings.NewReader(body))
	if err != nil {
		return attempt{err: errors.New("its URL is not valid")}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "verge/"+obs.Version())
	req.Header.Set(headerID, id)
	req.Header.Set(headerTimestamp, timestamp(now))
	req.Header.Set(headerSignature, Sign(id, now, body, keys...))
	resp, err := client.Do(req)
	if err != nil {
		return attempt{err: unwrapped(err, limit)}
	}
	a.status = resp.StatusCode
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		a.after = time.Duration(min(s, int(lastRetry/time.Second))) * time.Second
	}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
	if a.cut = int64(len(a.body)) > most; a.cut {
		a.body = a.body[:most]
	}
	// What is not read is cut off with the connection.
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil && !a.ok() {
		a.err = unwrapped(err, limit)
	}
	return a
}

// unwrapped is the error of a request without its URL, which may have secrets in it.
func unwrapped(err error, limit time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer in %s", limit)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return errors.New(cut(err.Error(), 300))
}

// deliver sends what waits for one hook, one after the other, until ctx ends.
func (k *Keeper) deliver(ctx context.Context, h *hook) {
	for ctx.Err() == nil {
		t, wait := k.head(h)
		if wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
			case <-h.kick:
			case <-timer.C:
			}
			timer.Stop()
			continue
		}
		a := k.post(ctx, t.client, &t.rec, t.q.item.ID, t.q.item.Body, maxReadNotice)
		if ctx.Err() != nil && !a.ok() {
			return
		}
		if a.ok() {
			k.delivered(ctx, h, &t, &a)
			continue
		}
		k.failed(ctx, h, &t, &a)
	}
}

// task is what a hook is to do next.
type task struct {
	q      queued
	rec    record.Hook
	client *http.Client
}

func (t *task) label() string { return wire.HookLabel(t.rec.Namespace, t.rec.Name) }

// head is what is to be sent next, or how long there is nothing to do.
func (k *Keeper) head(h *hook) (t task, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(h.queue) == 0 || h.rec.Paused != "" {
		return t, aimless
	}
	if wait := time.Until(h.retry); wait > 0 {
		return t, wait
	}
	return task{h.queue[0], h.rec, h.client}, 0
}

// delivered removes a notice that was taken by its receiver.
func (k *Keeper) delivered(ctx context.Context, h *hook, t *task, a *attempt) {
	key, q := queueKey(t.rec.ID, t.q.seq), t.q
	// That the process ends must not keep it: it would be sent again.
	if _, err := k.o.Store.Commit(context.WithoutCancel(ctx), bus.Del(key)); err != nil {
		k.o.Log.Warn("a notice that was delivered cannot be removed, it is tried again", "hook", t.label(), "error",
			err)
		k.mu.Lock()
		k.leftover = append(k.leftover, key)
		k.mu.Unlock()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(h.queue) > 0 && h.queue[0].seq == q.seq {
		h.bytes -= len(q.item.Body)
		h.queue = h.queue[1:]
	}
	if h.inRow > 0 {
		k.o.Log.Info("a hook takes notices again", "hook", t.label(), "failures", h.inRow)
	}
	h.tally.delivered++
	h.inRow, h.retry, h.last, h.lastAt = 0, time.Time{}, a.String(), k.o.Now().UTC()
}

// failed notes that a notice was not taken, and gives up those that are too old.
func (k *Keeper) failed(ctx context.Context, h *hook, t *task, a *attempt) {
	now := k.o.Now().UTC()
	k.mu.Lock()
	h.failures++
	h.inRow++
	h.last, h.lastAt = a.String(), now
	h.retry = time.Now().Add(Backoff(h.inRow, rand.Float64(), a.after)) //nolint:gosec // no secret
	if h.inRow == 1 {
		k.o.Log.Warn("a hook does not take a notice, it is tried again", "hook", t.label(), "why", h.last)
	}
	keep := time.Duration(h.rec.KeepSeconds) * time.Second
	n := 0
	for n < len(h.queue) && now.Sub(h.queue[n].item.Queued) > keep {
		n++
	}
	k.mu.Unlock()
	if a.status == http.StatusGone {
		if _, err := k.setPaused(ctx, h, "its receiver, which says 410 Gone"); err != nil {
			k.o.Log.Warn("cannot pause a hook whose receiver is gone", "hook", t.label(), "error", err)
		}
	}
	if n > 0 {
		k.expire(ctx, h, n, keep)
	}
}

// expire gives up the oldest n of what waits, which only the goroutine of the hook and
// the writer take away.
func (k *Keeper) expire(ctx context.Context, h *hook, n int, keep time.Duration) {
	k.changing.Lock()
	defer k.changing.Unlock()
	k.mu.Lock()
	why := fmt.Sprintf("not delivered in %s", keep)
	n = min(n, len(h.queue), maxChunk)
	rec, ops := h.rec, []bus.Op{}
	rec.Dropped += uint64(n) //nolint:gosec // not negative
	rec.DropWhy, rec.DroppedAt = why, k.o.Now().UTC()
	for _, q := range h.queue[:n] {
		ops = append(ops, bus.Del(queueKey(rec.ID, q.seq)))
	}
	gone := h.gone
	k.mu.Unlock()
	if gone || records.Append(&ops, keyHook+hookKey(rec.Namespace, rec.Name), &rec) != nil {
		return
	}
	if _, err := k.o.Store.Commit(ctx, ops...); err != nil {
		k.o.Log.Warn("what is too old for a hook cannot be removed, it is tried again", "hook",
			wire.HookLabel(rec.Namespace, rec.Name), "error", err)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.giveUp(h, n, why)
}
