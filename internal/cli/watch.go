package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// watchable kinds, as the server calls them.
var watchable = map[string]string{
	kindApplication: "applications", kindService: "applications", kindJob: "applications", kindInstance: "instances",
	kindCluster: "clusters", kindWorker: "workers", kindNamespace: "namespaces",
}

// getWatch is get -w: the present state, and then every change.
func (a *app) getWatch(ctx context.Context, c *client.Client, kind, name string, f getFlags) error {
	kinds, ok := watchable[kind]
	if !ok {
		return &userError{what: "this kind cannot be watched", why: kind,
			next: "it works for applications, services, jobs, instances, clusters, workers and namespaces"}
	}
	called := func(id string, prefix bool) bool {
		return name == "" || id == name || prefix && strings.HasPrefix(id, name)
	}
	in := func(namespace string) bool {
		return f.namespace == "" || cmp.Or(namespace, api.DefaultNamespace) == f.namespace
	}
	switch kind {
	case kindApplication:
		return follow(ctx, a, c, kinds, f.mode, a.applications(), func(v apiv1.AppView) []apiv1.AppView {
			return slices.DeleteFunc([]apiv1.AppView{v},
				func(v apiv1.AppView) bool { return !in(v.Namespace) || !called(v.Name, false) })
		})
	case kindService, kindJob:
		l := services()
		if kind == kindJob {
			l = a.jobs()
		}
		return follow(ctx, a, c, kinds, f.mode, l, func(v apiv1.AppView) (out []serviceItem) {
			for _, s := range v.Services {
				if (kind == kindService || s.Job != nil) && (f.app == "" || v.Name == f.app) && in(v.Namespace) &&
					called(v.Name+"."+s.Name, true) {
					out = append(out, serviceItem{v.Name, v.Namespace, s})
				}
			}
			return out
		})
	case kindInstance:
		return follow(ctx, a, c, kinds, f.mode, a.instances(), func(v apiv1.InstanceView) []apiv1.InstanceView {
			return slices.DeleteFunc([]apiv1.InstanceView{v}, func(v apiv1.InstanceView) bool {
				return !in(v.Namespace) || !called(v.ID, true) || (f.app != "" && v.App != f.app) ||
					(f.service != "" && v.Service != f.service)
			})
		})
	case kindCluster:
		return follow(ctx, a, c, kinds, f.mode, clusters(), func(v apiv1.ClusterView) []apiv1.ClusterView {
			return slices.DeleteFunc([]apiv1.ClusterView{v},
				func(v apiv1.ClusterView) bool { return !called(v.Name, false) })
		})
	}
	if kind == kindNamespace {
		return follow(ctx, a, c, kinds, f.mode, a.namespaces(), func(v apiv1.NamespaceView) []apiv1.NamespaceView {
			return slices.DeleteFunc([]apiv1.NamespaceView{v},
				func(v apiv1.NamespaceView) bool { return !called(v.Name, false) })
		})
	}
	return follow(ctx, a, c, kinds, f.mode, workers(), func(v rpc.WorkerView) []rpc.WorkerView {
		return slices.DeleteFunc([]rpc.WorkerView{v},
			func(v rpc.WorkerView) bool { return !called(workerName(v), false) && !called(v.Name, false) })
	})
}

// follow prints a list as it is and then every change of it; items are what an
// object of the server is in the list.
func follow[V, T any](ctx context.Context, a *app, c *client.Client, kind, mode string, l listing[T],
	items func(V) []T) error {
	p := &changes[T]{a: a, mode: mode, l: l, now: map[string]map[string]seenItem{}}
	return a.watch(ctx, c.Watch, kind, func(e apiv1.WatchEvent) error {
		switch e.Type {
		case apiv1.WatchBegin:
			p.begun(e.Full)
		case apiv1.WatchSynced:
			return p.synced()
		case apiv1.WatchPut, apiv1.WatchGone:
			var v V
			if err := json.Unmarshal(e.Object, &v); err != nil {
				return fmt.Errorf("read what the server tells of %s: %w", e.Key, err)
			}
			if e.Type == apiv1.WatchGone {
				return p.gone(e.Key)
			}
			return p.put(e.Key, items(v))
		}
		return nil
	})
}

// watcher is the client's Watch, or its WatchOn after a first answer.
type watcher func(ctx context.Context, kinds ...string) iter.Seq2[client.WatchEvent, error]

// watch passes on every change, and prints a message when the server is lost. It ends without an
// error when the user has seen enough.
func (a *app) watch(ctx context.Context, watch watcher, kinds string, tell func(apiv1.WatchEvent) error) error {
	for e, err := range watch(ctx, strings.Split(kinds, ",")...) {
		if err == nil && e.Type == apiv1.WatchLost {
			why, _, _ := strings.Cut(e.Why, "\n")
			a.notef("%s  %s; connecting again", a.clock(a.opts.Now()), clean(why))
		}
		if err == nil {
			err = tell(e)
		}
		switch {
		case ctx.Err() != nil:
			return nil // the user has seen enough
		case err != nil:
			return err
		}
	}
	return nil
}

// timeless is equal for two versions of an item between which only time passed.
func timeless(item []byte) [sha256.Size]byte {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(item, &fields); err == nil {
		delete(fields, "age_seconds")
		if data, err := json.Marshal(fields); err == nil {
			item = data
		}
	}
	return sha256.Sum256(item)
}

// seenItem is an item of the list as it was printed last.
type seenItem struct {
	same [sha256.Size]byte
	data []byte // JSON, where that is printed
}

// object is one of the server's, received and not yet printed.
type object[T any] struct {
	key   string
	items []T
}

// changes prints rows of a list as they come, under the header of the first.
type changes[T any] struct {
	a     *app
	mode  string
	l     listing[T]
	first []object[T]                    // until all that there is has been told
	now   map[string]map[string]seenItem // by the object that they are of, and name
	width []int                          // nil before the first was printed
	live  bool
}

// begun: a full beginning sends everything again; unchanged objects are not printed twice.
func (p *changes[T]) begun(full bool) {
	if full {
		p.first, p.live = nil, false
	}
}

// synced prints the present state.
func (p *changes[T]) synced() error {
	if p.live {
		return nil
	}
	p.live = true
	list := p.first
	p.first = nil
	if p.width == nil {
		p.measure(list)
		if err := p.header(); err != nil {
			return err
		}
	}
	there := map[string]bool{}
	for _, o := range list {
		there[o.key] = true
		if err := p.put(o.key, o.items); err != nil {
			return err
		}
	}
	for _, key := range records.SortedKeys(p.now) {
		if there[key] {
			continue
		}
		if err := p.gone(key); err != nil { // while nobody watched
			return err
		}
	}
	return nil
}

// put prints the items of an object that are new or have changed, and those that are gone.
func (p *changes[T]) put(key string, items []T) error {
	if !p.live {
		p.first = append(p.first, object[T]{key, items})
		return nil
	}
	before, next := p.now[key], make(map[string]seenItem, len(items))
	for _, v := range items {
		name := p.l.name(v)
		data, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode the output: %w", err)
		}
		item := seenItem{same: timeless(data)}
		old, known := before[name]
		if p.mode == "json" || p.mode == "yaml" {
			item.data = data
		}
		next[name] = item
		if known && old.same == item.same {
			continue
		}
		if err := p.print(name, v, item, known); err != nil {
			return err
		}
	}
	p.now[key] = next
	for _, name := range records.SortedKeys(before) {
		if _, ok := next[name]; ok {
			continue
		}
		if err := p.over(name, before[name]); err != nil {
			return err
		}
	}
	return nil
}

// gone prints that the items of an object are no more.
func (p *changes[T]) gone(key string) error {
	old := p.now[key]
	delete(p.now, key)
	for _, name := range records.SortedKeys(old) {
		if err := p.over(name, old[name]); err != nil {
			return err
		}
	}
	return nil
}

func (p *changes[T]) print(name string, v T, item seenItem, known bool) error {
	switch p.mode {
	case "json", "yaml":
		return p.document(apiv1.WatchPut, item.data)
	case "name":
		if known {
			return nil
		}
		return p.a.printf("%s/%s", p.l.kind, name)
	}
	return p.line(p.row(v))
}

// over prints that an item is no more.
func (p *changes[T]) over(name string, last seenItem) error {
	switch p.mode {
	case "json", "yaml":
		return p.document(apiv1.WatchGone, last.data)
	case "name":
		return nil
	}
	return p.line([]cell{text(name), {"gone", yellow}})
}

func (p *changes[T]) document(what string, object []byte) error {
	v := struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}{what, object}
	if p.mode == "yaml" {
		if err := p.a.printf("---"); err != nil {
			return err
		}
		return p.a.encode("yaml", v)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return p.a.printf("%s", data)
}

func (p *changes[T]) columns() []column[T] {
	return slices.DeleteFunc(slices.Clone(p.l.columns), func(c column[T]) bool { return c.wide && p.mode != "wide" })
}

func (p *changes[T]) row(v T) []cell {
	columns := p.columns()
	out := make([]cell, len(columns))
	for i, c := range columns {
		out[i] = c.cell(v)
	}
	if p.mode != "wide" {
		shorten([][]cell{out})
	}
	return out
}

// measure finds how wide the columns are to be: as for the first items.
func (p *changes[T]) measure(list []object[T]) {
	for _, c := range p.columns() {
		p.width = append(p.width, utf8.RuneCountInString(c.name))
	}
	for _, o := range list {
		for _, v := range o.items {
			for i, c := range p.row(v) {
				p.width[i] = max(p.width[i], utf8.RuneCountInString(orDash(c.text)))
			}
		}
	}
}

func (p *changes[T]) header() error {
	if p.mode != "table" && p.mode != "wide" {
		return nil
	}
	var row []cell
	for _, c := range p.columns() {
		row = append(row, text(strings.ToUpper(c.name)))
	}
	return p.line(row)
}

// line prints one row. What is wider than its column pushes the others on.
func (p *changes[T]) line(row []cell) error {
	var b strings.Builder
	for i, c := range row {
		t := orDash(c.text)
		b.WriteString(p.a.paint(p.a.out, c.colour, t))
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", max(0, p.width[i]-utf8.RuneCountInString(t))+3))
		}
	}
	b.WriteByte('\n')
	if _, err := io.WriteString(p.a.out, b.String()); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}
