package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/wire"
)

// Ended begins the positions at which a subject is gone.
const Ended = "ended"

// Notice is something that has happened to a subject.
type Notice struct {
	Kind event.Kind // zero: nobody is told, see Last
	At   time.Time
	// Position of the subject after the notice, different from all before. Notices up to a
	// recorded position are not sent again.
	Position string
	Data     wire.HookData // Source is filled in; Subject is what Position is of
	// Fresh: it was seen to happen. Otherwise only hooks that existed then receive it.
	Fresh bool
	// Only: it is sent only if the subject's last position is this one; "": at any.
	Only string
	// Free of positions: it is sent as it comes, and neither reads nor sets one.
	Free bool
	// Note the position although nobody wants to know.
	Note bool
	// Last: the subject is gone, which is sent once.
	Last bool
}

// Tell notes what has happened to one subject, in order, from some position that has
// been told already or none. It does not wait.
func (k *Keeper) Tell(list ...Notice) {
	if !k.Any() || len(list) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	if len(k.pending) >= maxPending {
		// The position of the subject is not recorded, so it is sent when it changes again, or
		// when the process starts again.
		k.overflow++
		return
	}
	subject := list[0].Data.Subject
	was, marked := k.marks[subject]
	mark := was.At
	from := 0
	for i, n := range list {
		if marked && n.Position == mark {
			from = i + 1
		}
	}
	for i := range list[from:] {
		n := &list[from+i]
		if n.Free {
			k.offer(n)
			continue
		}
		if n.Only != "" && mark != n.Only {
			continue
		}
		if told := n.Last && strings.HasPrefix(mark, Ended); !told && (k.offer(n) || n.Note) {
			mark, marked = n.Position, true
			k.mark(subject, &record.HookMark{V: wire.Version, At: mark, Namespace: n.Data.Namespace})
		}
		if n.Last && marked {
			k.mark(subject, nil)
			mark, marked = "", false
		}
	}
	if len(k.pending) > 0 {
		k.poke()
	}
}

// offer gives a notice to the hooks that want it. The mutex is held.
func (k *Keeper) offer(n *Notice) (matched bool) {
	if !n.Kind.Told("") {
		return false
	}
	var item record.HookItem
	for _, h := range k.order {
		if h.rec.Namespace != "" && h.rec.Namespace != n.Data.Namespace || !event.Matches(h.rec.On, n.Kind.String()) ||
			!n.Fresh && !n.At.After(h.rec.Since) {
			continue
		}
		if matched = true; item.ID == "" {
			item = record.HookItem{V: wire.Version, ID: messageID(), Kind: n.Kind.String(), Queued: k.o.Now().UTC(),
				Body: k.message(n.Kind.String(), n.At, n.Data)}
		}
		k.pending = append(k.pending, pending{hook: h, item: item})
	}
	return matched
}

func messageID() string { return "msg_" + wire.NewID() }

// message is the body of a message.
func (k *Keeper) message(kind string, at time.Time, d wire.HookData) string {
	if d.Source == "" {
		d.Source = k.o.Source
	}
	d.What = cut(d.What, maxText)
	data, err := json.Marshal(apiv1.HookMessage{Type: kind, Timestamp: at.UTC(), Data: d})
	if err != nil { // a time that no clock shows: what a cluster says
		data, _ = json.Marshal(apiv1.HookMessage{Type: kind, Timestamp: k.o.Now().UTC(), Data: d})
	}
	return string(data)
}

// mark notes how far a subject has been told; nil forgets it. The mutex is held.
func (k *Keeper) mark(subject string, m *record.HookMark) {
	k.pending = append(k.pending, pending{subject: subject, mark: m})
	if m == nil {
		delete(k.marks, subject)
		return
	}
	k.marks[subject] = *m
}

// write stores what is to be stored, until ctx ends.
func (k *Keeper) write(ctx context.Context) {
	wait := time.Duration(0)
	for {
		if wait == 0 {
			select {
			case <-ctx.Done():
				return
			case <-k.wake:
			}
		} else if !pause(ctx, wait) {
			return
		}
		wait = 0
		for {
			n, err := k.flush(ctx)
			if err != nil && ctx.Err() == nil {
				k.o.Log.Warn("notices for hooks cannot be stored, it is tried again", "error", err)
				wait = storePause
			}
			if n == 0 || err != nil {
				break
			}
		}
	}
}

// storePause is the time between two attempts to store.
const storePause = 2 * time.Second

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// flush stores the oldest of what is pending and returns how much that was.
func (k *Keeper) flush(ctx context.Context) (n int, err error) {
	k.changing.Lock()
	defer k.changing.Unlock()
	k.mu.Lock()
	n = min(len(k.pending), maxChunk)
	chunk := append([]pending(nil), k.pending[:n]...)
	leftover := append([]string(nil), k.leftover[:min(len(k.leftover), maxChunk)]...)
	b := k.batch(chunk, leftover)
	k.mu.Unlock()
	if len(b.ops) == 0 {
		return n, k.settle(n, len(leftover), b)
	}
	if b.err != nil {
		return 0, b.err
	}
	if _, err := k.o.Store.Commit(ctx, b.ops...); err != nil {
		return 0, fmt.Errorf("storing notices: %w", err)
	}
	return n + len(leftover), k.settle(n, len(leftover), b)
}

// batch is one write.
type batch struct {
	ops     []bus.Op
	add     map[*hook][]queued
	dropped map[*hook]uint64 // the newest of those that are given up
	err     error
}

// batch makes the write of a chunk; what it stores is not in the queues yet. The mutex
// is held.
func (k *Keeper) batch(chunk []pending, leftover []string) *batch {
	b := &batch{add: map[*hook][]queued{}, dropped: map[*hook]uint64{}}
	marks := map[string]*record.HookMark{}
	for _, p := range chunk {
		if p.subject != "" {
			marks[p.subject] = p.mark
		}
		if h := p.hook; h != nil && !h.gone {
			b.add[h] = append(b.add[h], queued{h.next + uint64(len(b.add[h])), p.item})
		}
	}
	for _, h := range k.order {
		b.err = cmp.Or(b.err, b.queue(h, k.o.Now().UTC()))
	}
	for _, subject := range records.SortedKeys(marks) {
		b.err = cmp.Or(b.err, records.Append(&b.ops, keyMark+subject, marks[subject]))
	}
	for _, key := range leftover {
		subject := strings.TrimPrefix(key, keyMark)
		_, now := marks[subject]
		if _, since := k.marks[subject]; !now && !since { // else somebody wants to know again
			b.ops = append(b.ops, bus.Del(key))
		}
	}
	return b
}

// queue adds what is new of one hook, and takes away what is too much: the oldest.
func (b *batch) queue(h *hook, now time.Time) error {
	add := b.add[h]
	if len(add) == 0 {
		return nil
	}
	count, bytes := len(h.queue)+len(add), h.bytes
	for _, q := range add {
		bytes += len(q.item.Body)
		item := q.item
		if err := records.Append(&b.ops, queueKey(h.rec.ID, q.seq), &item); err != nil {
			return err
		}
	}
	n := 0
	for n < len(h.queue) && (count-n > maxWaiting || bytes > maxWaitingBytes) {
		bytes -= len(h.queue[n].item.Body)
		b.ops = append(b.ops, bus.Del(queueKey(h.rec.ID, h.queue[n].seq)))
		n++
	}
	if n == 0 {
		return nil
	}
	b.dropped[h] = h.queue[n-1].seq
	rec := h.rec
	rec.Dropped += uint64(n)
	rec.DropWhy, rec.DroppedAt = tooMany, now
	return records.Append(&b.ops, keyHook+hookKey(rec.Namespace, rec.Name), &rec)
}

const tooMany = "too many waited: the oldest were dropped"

// settle makes what was stored part of the queues.
func (k *Keeper) settle(n, leftover int, b *batch) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending, k.leftover = k.pending[n:], k.leftover[leftover:]
	if len(k.pending) == 0 {
		k.pending = nil // its array may be long
	}
	for h, add := range b.add {
		if last, some := b.dropped[h]; some {
			over := 0 // some may have been delivered meanwhile
			for over < len(h.queue) && h.queue[over].seq <= last {
				over++
			}
			k.giveUp(h, over, tooMany)
		}
		for _, q := range add {
			h.bytes += len(q.item.Body)
			h.next = q.seq + 1
		}
		h.queue = append(h.queue, add...)
		h.poke()
	}
	return b.err
}

// giveUp takes the oldest n of what waits for a hook out of its queue. The mutex is held.
func (k *Keeper) giveUp(h *hook, n int, why string) {
	if n == 0 {
		return
	}
	for _, q := range h.queue[:n] {
		h.bytes -= len(q.item.Body)
	}
	h.queue = h.queue[n:]
	h.rec.Dropped += uint64(n)
	h.rec.DropWhy, h.rec.DroppedAt = why, k.o.Now().UTC()
	k.say(h, event.HookDropped, fmt.Sprintf("%s dropped: %s", wire.Count(n, "notice"), why))
}

// say tells people what became of a hook.
func (k *Keeper) say(h *hook, kind event.Kind, what string) {
	if k.o.Events != nil {
		k.o.Events.Note(time.Now(), kind, h.label(), what)
	}
}
