package hooks

import (
	"context"
	"crypto/hmac"
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/wire"
)

// Set makes a hook, or changes what it does; durable when it returns.
func (k *Keeper) Set(ctx context.Context, namespace, name, by string, r apiv1.HookRequest) (apiv1.HookView, error) {
	spec, err := settle(r.HookSpec, namespace, k.tier())
	if err != nil {
		return apiv1.HookView{}, err
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	now := k.o.Now().UTC()
	old, count, mine := k.look(namespace, name)
	rec := record.Hook{V: wire.Version, ID: wire.NewID(), Namespace: namespace, Name: name, Created: now, Since: now}
	switch {
	case old != nil:
		rec = old.rec
		if widened(rec.HookSpec, spec) {
			rec.Since = now
		}
	case count >= wire.MaxHooks:
		return apiv1.HookView{}, wire.Problemf(409, "too-many", "remove one that is not used: verge hook ls",
			"there are too many hooks", "%d, at most %d", count, wire.MaxHooks)
	case namespace != "" && mine >= wire.MaxNamespaceHooks:
		return apiv1.HookView{}, wire.Problemf(409, "too-many",
			"remove one that is not used: verge hook ls --namespace "+namespace, "there are too many hooks",
			"namespace %s has %d, at most %d", namespace, mine, wire.MaxNamespaceHooks)
	case r.Secret == "":
		return apiv1.HookView{}, bad("it has no secret to sign with: --secret-file FILE")
	}
	rec.HookSpec, rec.By = spec, by
	if r.Secret != "" {
		if err := k.rotate(&rec, r.Secret, r.OverlapSeconds, now); err != nil {
			return apiv1.HookView{}, err
		}
	}
	return k.put(ctx, old, rec)
}

// Rotate gives a hook another secret; the one before signs too for as long as overlap
// says.
func (k *Keeper) Rotate(ctx context.Context, namespace, name, by, secret string, overlapSeconds int) (apiv1.HookView,
	error) {
	k.changing.Lock()
	defer k.changing.Unlock()
	old, _, _ := k.look(namespace, name)
	if old == nil {
		return apiv1.HookView{}, noHook(namespace, name)
	}
	rec := old.rec
	rec.By = by
	if err := k.rotate(&rec, secret, overlapSeconds, k.o.Now().UTC()); err != nil {
		return apiv1.HookView{}, err
	}
	return k.put(ctx, old, rec)
}

func (k *Keeper) rotate(rec *record.Hook, secret string, overlap int, now time.Time) error {
	key, err := ParseSecret(secret)
	if err != nil {
		return bad("secret: %v", err)
	}
	if keys, err := k.open(rec, now); err == nil && len(keys) > 0 && hmac.Equal(keys[0], key) && overlap >= 0 {
		return nil // it is that already
	}
	if overlap == 0 {
		overlap = wire.HookOverlap
	}
	if overlap < -1 || overlap > wire.MaxHookOverlap {
		return bad("overlap_seconds is up to %d, or -1 for none", wire.MaxHookOverlap)
	}
	s, err := k.sealed(rec, secret, now)
	if err != nil {
		return err
	}
	next := []record.HookSecret{s}
	if len(rec.Secrets) > 0 && overlap > 0 {
		before := rec.Secrets[0]
		before.Until = now.Add(time.Duration(overlap) * time.Second)
		next = append(next, before)
	}
	rec.Secrets = next
	return nil
}

// widened: a hook receives more than before. Earlier events of the new part are not for it.
func widened(old, next wire.HookSpec) bool {
	return slices.ContainsFunc(next.On, func(on string) bool { return !slices.Contains(old.On, on) })
}

// look finds a hook, how many there are, and how many of a namespace. changing is held.
func (k *Keeper) look(namespace, name string) (h *hook, all, mine int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range k.hooks {
		if o.rec.Namespace == namespace {
			mine++
		}
	}
	return k.hooks[hookKey(namespace, name)], len(k.hooks), mine
}

// put stores a record and makes it count. changing is held.
func (k *Keeper) put(ctx context.Context, h *hook, rec record.Hook) (apiv1.HookView, error) {
	op, err := records.Op(keyHook+hookKey(rec.Namespace, rec.Name), &rec)
	if err != nil {
		return apiv1.HookView{}, err
	}
	fresh, err := k.newHook(rec)
	if err != nil {
		return apiv1.HookView{}, bad("%v", err)
	}
	if _, err := k.o.Store.Commit(ctx, op); err != nil {
		return apiv1.HookView{}, unstored(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return apiv1.HookView{}, unstored(bus.ErrClosed)
	}
	if h == nil {
		h = fresh
		k.hooks[hookKey(rec.Namespace, rec.Name)] = h
		k.sort()
		k.begin(h)
	} else {
		h.client.CloseIdleConnections()
		h.client = fresh.client
		// The state was about the former hook.
		h.rec, h.inRow, h.retry = rec, 0, time.Time{}
		h.poke()
	}
	return k.view(h), nil
}

// Remove takes a hook away, with what waits for it.
func (k *Keeper) Remove(ctx context.Context, namespace, name string) (apiv1.HookView, error) {
	k.changing.Lock()
	defer k.changing.Unlock()
	h, _, _ := k.look(namespace, name)
	if h == nil {
		return apiv1.HookView{}, noHook(namespace, name)
	}
	if _, err := k.o.Store.Delete(ctx, keyHook+hookKey(namespace, name)); err != nil {
		return apiv1.HookView{}, unstored(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	v := k.view(h)
	h.gone = true
	h.end()
	delete(k.hooks, hookKey(namespace, name))
	k.sort()
	for _, q := range h.queue {
		k.leftover = append(k.leftover, queueKey(h.rec.ID, q.seq))
	}
	h.queue, h.bytes = nil, 0
	if len(k.hooks) == 0 {
		// Nobody wants to know where anything was.
		for subject := range k.marks {
			k.leftover = append(k.leftover, keyMark+subject)
		}
		k.marks, k.pending = map[string]record.HookMark{}, nil
	}
	k.poke()
	return v, nil
}

// Pause stops a hook: it is not asked anything, and its notices wait.
func (k *Keeper) Pause(ctx context.Context, namespace, name, by string) (apiv1.HookView, error) {
	return k.halt(ctx, namespace, name, by)
}

// Resume ends a pause, and tries again at once what waits.
func (k *Keeper) Resume(ctx context.Context, namespace, name string) (apiv1.HookView, error) {
	return k.halt(ctx, namespace, name, "")
}

func (k *Keeper) halt(ctx context.Context, namespace, name, by string) (apiv1.HookView, error) {
	k.mu.Lock()
	h := k.hooks[hookKey(namespace, name)]
	k.mu.Unlock()
	if h == nil {
		return apiv1.HookView{}, noHook(namespace, name)
	}
	return k.setPaused(ctx, h, by)
}

func (k *Keeper) setPaused(ctx context.Context, h *hook, by string) (apiv1.HookView, error) {
	k.changing.Lock()
	defer k.changing.Unlock()
	k.mu.Lock()
	rec, gone := h.rec, h.gone
	k.mu.Unlock()
	if gone {
		return apiv1.HookView{}, noHook(rec.Namespace, rec.Name)
	}
	if (rec.Paused == "") != (by == "") {
		rec.Paused, rec.PausedAt = by, time.Time{}
		if by != "" {
			rec.PausedAt = k.o.Now().UTC()
		}
		v, err := k.put(ctx, h, rec)
		if err == nil && by != "" {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.say(h, event.HookPaused, "paused by "+by)
		}
		return v, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h.inRow, h.retry = 0, time.Time{}
	h.poke()
	return k.view(h), nil
}

// Test sends a hook a notice, or a question if it receives no notices, and returns the result. It
// overtakes waiting notices.
func (k *Keeper) Test(ctx context.Context, namespace, name, by string) (apiv1.HookTested, error) {
	k.mu.Lock()
	h := k.hooks[hookKey(namespace, name)]
	if h == nil {
		k.mu.Unlock()
		return apiv1.HookTested{}, noHook(namespace, name)
	}
	t := task{rec: h.rec, client: h.client}
	k.mu.Unlock()
	d := wire.HookData{Subject: "hook/" + t.label(), Namespace: namespace, What: "a test", By: by}
	began := time.Now()
	out := apiv1.HookTested{Name: t.label()}
	if len(t.rec.Before) > 0 {
		d.Operation = "test"
		v := k.question(ctx, h, &t, k.message(wire.HookTest, k.o.Now(), d))
		out.OK, out.What = v.allowed, v.String()
	} else {
		a := k.post(ctx, t.client, &t.rec, messageID(), k.message(wire.HookTest, k.o.Now(), d), maxReadNotice)
		out.OK, out.What = a.ok(), a.String()
	}
	out.TookSeconds = time.Since(began).Seconds()
	return out, nil
}

func noHook(namespace, name string) error {
	return wire.Problemf(404, "no-such-hook", "verge hook ls", "there is no such hook", "%s is not known",
		wire.HookLabel(namespace, name))
}

func unstored(err error) error {
	return records.Unstored(err, "look (verge hook ls) before you try again", "the disk")
}

// Hooks of a namespace, of all where all is set.
func (k *Keeper) Hooks(namespace string, all bool) []apiv1.HookView {
	out := []apiv1.HookView{}
	if k == nil {
		return out
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.order {
		if all || h.rec.Namespace == namespace {
			out = append(out, k.view(h))
		}
	}
	return out
}

// Of says how many hooks a namespace has.
func (k *Keeper) Of(namespace string) (names []string) {
	for _, v := range k.Hooks(namespace, false) {
		names = append(names, v.Name)
	}
	return names
}

// view is what people see of a hook. The mutex is held.
func (k *Keeper) view(h *hook) apiv1.HookView {
	now := k.o.Now()
	v := apiv1.HookView{
		Namespace: h.rec.Namespace, Name: h.rec.Name, HookSpec: h.rec.HookSpec, Created: h.rec.Created, By: h.rec.By,
		Waiting: len(h.queue), Delivered: h.tally.delivered, Failures: h.failures, Allowed: h.allowed,
		Refused: h.refused, Silent: h.silent,
		Dropped: h.rec.Dropped, DropWhy: h.rec.DropWhy, DroppedAt: h.rec.DroppedAt, Last: h.last, LastAt: h.lastAt,
		State: "ready",
	}
	if len(h.rec.Secrets) > 0 {
		v.SecretSet = h.rec.Secrets[0].Set
	}
	if len(h.rec.Secrets) > 1 && now.Before(h.rec.Secrets[1].Until) {
		v.Overlap = h.rec.Secrets[1].Until
	}
	if len(h.queue) > 0 {
		v.State, v.OldestSeconds = "waiting", max(0, now.Sub(h.queue[0].item.Queued).Seconds())
	}
	_, err := k.open(&h.rec, now)
	switch {
	case err != nil:
		v.State, v.Why = "broken", err.Error()
	case h.rec.Paused != "":
		v.State, v.Why = "paused", fmt.Sprintf("by %s, since %s", h.rec.Paused, h.rec.PausedAt.Format(time.RFC3339))
	case h.inRow > 0:
		v.State, v.Why = "failing", fmt.Sprintf("%s, %s in a row", h.last, wire.Count(h.inRow, "failure"))
		if wait := time.Until(h.retry); wait > 0 && len(h.queue) > 0 {
			v.Next = now.Add(wait).UTC()
		}
	}
	return v
}
