package hooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of hooks in a tier's store.
const (
	keyHook  = "hook."     // + namespace.name, "_" for no namespace: record.Hook
	keyQueue = "hookq."    // + id of the hook.sequence number in 16 hexadecimal digits: record.HookItem
	keyMark  = "hookmark." // + subject: record.HookMark
)

const (
	// maxWaiting and maxWaitingBytes bound what waits for one hook.
	maxWaiting      = 1000
	maxWaitingBytes = 512 << 10
	// maxPending bounds what is to be stored, of all hooks together.
	maxPending = 10_000
	// maxChunk of it are stored in one write.
	maxChunk = 300
	// maxText bounds each text of a message, in bytes.
	maxText = 1024
)

// Options of a Keeper. Store, Key, Now and Log are required.
type Options struct {
	Store bus.Store
	// Key seals the secrets.
	Key *seal.Key
	// Now says what time it is, for people and receivers.
	Now func() time.Time
	// Source is who speaks: "root", "cluster/edge".
	Source string
	// Allow are networks to which hooks may go although they are usually not for them.
	Allow []netip.Prefix
	// Advertised are the advertised hosts of this machine: hooks may not connect to them, as to
	// its own addresses.
	Advertised []string
	// Events of the tier: hooks receive them, and the state of hooks is reported to them; nil:
	// none.
	Events *obs.Events
	Log    *slog.Logger
}

// Keeper has the hooks of a tier. It is safe for concurrent use; a nil one tells and
// asks nobody.
type Keeper struct {
	o    Options
	any  atomic.Bool   // there are hooks
	wake chan struct{} // something is to be stored
	run  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	changing sync.Mutex // held over writes of records; taken before mu

	mu sync.Mutex // guards below
	// hooks by their key; order are the same in the order of these.
	hooks map[string]*hook
	order []*hook
	marks map[string]record.HookMark // by subject: as they are to be
	// pending is not stored yet, oldest first. leftover are keys that are to go.
	pending  []pending
	leftover []string
	unread   []records.Unread // as Open found it
	overflow uint64           // how often nothing could be taken on
	closed   bool
}

// pending is something to be stored: a notice for a hook, how far a subject has been
// told, or both.
type pending struct {
	hook *hook // nil: a mark alone
	item record.HookItem
	// subject whose mark becomes mark, nil for none; "" leaves marks alone.
	subject string
	mark    *record.HookMark
}

// hook is one of them. All is guarded by the keeper's mutex.
type hook struct {
	rec    record.Hook
	client *http.Client
	queue  []queued
	bytes  int    // of the queue
	next   uint64 // sequence number of the next notice
	gone   bool
	tally
	kick chan struct{} // look again; capacity 1
	end  context.CancelFunc
}

type queued struct {
	seq  uint64
	item record.HookItem
}

// tally is how a hook has fared since the process started.
type tally struct {
	delivered, failures      uint64
	allowed, refused, silent uint64
	inRow                    int // failures since the last success
	last                     string
	lastAt                   time.Time
	retry                    time.Time // monotonic: not before
}

// Open reads the hooks of a store and begins to deliver what waits. ctx bounds the
// start only. The caller must Close it, before the store.
func Open(ctx context.Context, o Options) (*Keeper, error) {
	k := &Keeper{o: o, wake: make(chan struct{}, 1), hooks: map[string]*hook{}, marks: map[string]record.HookMark{}}
	k.run, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := k.load(ctx); err != nil {
		k.stop()
		return nil, fmt.Errorf("reading the hooks: %w", err)
	}
	k.sort()
	k.work.Go(func() { k.write(k.run) })
	for _, h := range k.order {
		k.begin(h)
	}
	if o.Events != nil {
		o.Events.Subscribe(k.Event)
	}
	return k, nil
}

func (k *Keeper) load(ctx context.Context) error {
	recs, err := k.o.Store.List(ctx, keyHook)
	if err != nil {
		return err
	}
	byID := map[string]*hook{}
	for _, e := range recs {
		var rec record.Hook
		if err := records.Load(e, &rec); err != nil { // it may be one that has to agree
			return errors.New(records.Unread{Key: e.Key, Fate: records.Stops, Err: err}.String())
		}
		h, err := k.newHook(rec)
		if err != nil {
			return fmt.Errorf("stored hook %s: %w", e.Key, err)
		}
		k.hooks[strings.TrimPrefix(e.Key, keyHook)], byID[rec.ID] = h, h
	}
	waiting, err := k.o.Store.List(ctx, keyQueue)
	if err != nil {
		return err
	}
	for _, e := range waiting {
		id, number, _ := strings.Cut(strings.TrimPrefix(e.Key, keyQueue), ".")
		seq, err := strconv.ParseUint(number, 16, 64)
		h := byID[id]
		if h == nil || err != nil {
			k.leftover = append(k.leftover, e.Key) // its hook was removed
			continue
		}
		var item record.HookItem
		if err := records.Load(e, &item); err != nil {
			k.setAside(e.Key, err)
			h.next = seq + 1 // not written over
			continue
		}
		h.queue, h.bytes, h.next = append(h.queue, queued{seq, item}), h.bytes+len(item.Body), seq+1
	}
	marks, err := k.o.Store.List(ctx, keyMark)
	if err != nil {
		return err
	}
	for _, e := range marks {
		var m record.HookMark
		if err := records.Load(e, &m); err != nil {
			k.setAside(e.Key, err)
			continue
		}
		k.marks[strings.TrimPrefix(e.Key, keyMark)] = m
	}
	if len(k.leftover) > 0 {
		k.poke()
	}
	return nil
}

// setAside leaves a record that cannot be read where it is.
func (k *Keeper) setAside(key string, err error) {
	u := records.Unread{Key: key, Fate: records.Aside, Err: err}
	k.unread = append(k.unread, u)
	k.o.Log.Error(u.String())
}

// Unread are the stored notices and marks that cannot be read.
func (k *Keeper) Unread() []records.Unread {
	if k == nil {
		return nil
	}
	return k.unread
}

func (k *Keeper) newHook(rec record.Hook) (*hook, error) {
	client, err := newClient(k.o.Allow, k.o.Advertised, rec.CA)
	if err != nil {
		return nil, err
	}
	return &hook{rec: rec, client: client, kick: make(chan struct{}, 1)}, nil
}

// begin starts the goroutine that delivers to a hook.
func (k *Keeper) begin(h *hook) {
	ctx, cancel := context.WithCancel(k.run)
	h.end = cancel
	k.work.Go(func() { k.deliver(ctx, h) })
}

// Close stores what is to be stored, ends what is under way, and waits. What waits is
// delivered by whoever opens the store next.
func (k *Keeper) Close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.any.Store(false)
	k.stop()
	k.work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for {
		if n, err := k.flush(ctx); n == 0 || err != nil {
			break
		}
	}
	for _, h := range k.hooks {
		h.client.CloseIdleConnections()
	}
}

// tier whose hooks these are, "" where that is not said.
func (k *Keeper) tier() string {
	tier, _, _ := strings.Cut(k.o.Source, "/")
	return tier
}

// poke wakes the writer.
func (k *Keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (h *hook) poke() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

func (h *hook) label() string { return wire.HookLabel(h.rec.Namespace, h.rec.Name) }

func hookKey(namespace, name string) string {
	if namespace == "" {
		namespace = "_" // no name of a namespace
	}
	return namespace + "." + name
}

func queueKey(id string, seq uint64) string { return fmt.Sprintf("%s%s.%016x", keyQueue, id, seq) }

// sort puts the hooks in order after one has come or gone: each Tell goes through them.
// The mutex is held.
func (k *Keeper) sort() {
	k.order = nil
	for _, key := range records.SortedKeys(k.hooks) {
		k.order = append(k.order, k.hooks[key])
	}
	k.any.Store(len(k.order) > 0)
}

// open are the keys that a hook signs with now, the newest first.
func (k *Keeper) open(rec *record.Hook, now time.Time) (keys [][]byte, err error) {
	for _, s := range rec.Secrets {
		if !s.Until.IsZero() && !now.Before(s.Until) {
			continue
		}
		text, err := k.o.Key.Open(purpose(rec, s.ID), s.Sealed)
		if err != nil {
			return nil, fmt.Errorf("its secret cannot be read: %w: set it again: verge hook rotate %s", err, rec.Name)
		}
		key, err := ParseSecret(string(text))
		if err != nil {
			return nil, fmt.Errorf("its secret is damaged: set it again: verge hook rotate %s", rec.Name)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// purpose is what a secret of a hook is sealed for, and nothing else.
func purpose(rec *record.Hook, id string) string { return "verge hook\x00" + rec.ID + "\x00" + id }

// sealed is a secret as it is stored.
func (k *Keeper) sealed(rec *record.Hook, secret string, now time.Time) (record.HookSecret, error) {
	s := record.HookSecret{ID: wire.NewID(), Key: k.o.Key.ID(), Set: now.UTC()}
	var err error
	s.Sealed, err = seal.Seal(k.o.Key.Public(), purpose(rec, s.ID), []byte(strings.TrimSpace(secret)))
	return s, err
}

// Any says whether there are hooks: if not, there is nobody to make a notice for.
func (k *Keeper) Any() bool { return k != nil && k.any.Load() }

// NamespaceOf a subject that has been told of, "" where it has none, or was not.
func (k *Keeper) NamespaceOf(subject string) string {
	if k == nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.marks[subject].Namespace
}

// Subjects that have been told of and begin with prefix, with their namespaces.
func (k *Keeper) Subjects(prefix string) map[string]string {
	out := map[string]string{}
	if k == nil {
		return out
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for s, m := range k.marks {
		if strings.HasPrefix(s, prefix) {
			out[s] = m.Namespace
		}
	}
	return out
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
