package report

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/verge-edge/verge/internal/importer/source"
)

// A Cover says what happens to each field of a format, by its pattern: * is any key, ? a key that
// is not listed, x-* an extension, and [] any item. "" is carried over, or judged by code; Ignored
// has no effect on what runs; a verdict that begins with Noted is a remark and no loss; any other
// is the reason why the field is lost. A field in no Cover is lost, too.
type Cover map[string]string

// Ignored fields have no effect on what runs. Noted begins the verdict of a field that gets a
// remark and is no loss.
const (
	Ignored = "-"
	Noted   = "~"
)

// NoCounterpart is the reason for fields without a counterpart in Verge.
const NoCounterpart = "is not carried over: Verge has nothing like it"

// Features of containers with Docker and Kubernetes that Verge lacks.
const (
	NoWorkingDir = "is not carried over: an instance begins in the working directory of its image"
	NoTerminal   = "is not carried over: an instance has no terminal (verge exec has one)"
	NoInput      = "is not carried over: an instance has no input (verge exec has one)"
)

// Trie is a cover by segments.
type Trie struct {
	next    map[string]*Trie
	verdict *string
	other   string // verdict on keys that are not in next
}

// Lazy makes the trie on first use: every command links this package, and few import anything.
func (c Cover) Lazy() func() *Trie { return sync.OnceValue(c.Trie) }

// Trie is the cover by segments of paths.
func (c Cover) Trie() *Trie {
	top := &Trie{next: map[string]*Trie{}}
	for pattern, verdict := range c {
		t := top
		for _, s := range strings.Split(strings.ReplaceAll(pattern, "[]", ".[]"), ".") {
			if t.next[s] == nil {
				t.next[s] = &Trie{next: map[string]*Trie{}}
			}
			t = t.next[s]
		}
		t.verdict = &verdict
	}
	top.others()
	return top
}

// others adds the verdicts on unlisted keys.
func (t *Trie) others() {
	if o := t.next["?"]; o != nil {
		t.other = *o.verdict
		delete(t.next, "?")
	}
	for _, next := range t.next {
		next.others()
	}
}

// Leftovers notes everything in d below path that t does not carry over.
func (r *Report) Leftovers(d *source.Document, n *source.Node, path []string, t *Trie) {
	if n.Empty() {
		return
	}
	step := func(name, pattern string, v *source.Node) {
		at := source.Extend(path, name)
		inner := t.next[pattern]
		if inner == nil && strings.HasPrefix(name, "x-") {
			inner = t.next["x-*"]
		}
		if inner == nil {
			inner = t.next["*"]
		}
		switch {
		case v.Empty() || r.strange[strangeKey(d, at)]:
		case inner == nil:
			r.At(Lost, d, at, "%s", cmp.Or(t.other, NoCounterpart))
		case inner.verdict != nil && *inner.verdict == Ignored:
		case inner.verdict != nil && strings.HasPrefix(*inner.verdict, Noted):
			r.At(Said, d, at, "%s", (*inner.verdict)[len(Noted):])
		case inner.verdict != nil && *inner.verdict != "":
			r.At(Lost, d, at, "%s", *inner.verdict)
		case len(inner.next) > 0 && v.Kind == source.Scalar:
			if inner.verdict == nil { // only its contents are judged by others
				r.At(Lost, d, at, "is not carried over: it is a single value, and is to be a mapping or a list")
			}
		case len(inner.next) > 0:
			r.Leftovers(d, v, at, inner)
		}
	}
	switch n.Kind {
	case source.Mapping:
		for i, k := range n.Keys {
			step(k.Name, k.Name, n.Values[i])
		}
	case source.List:
		for i, v := range n.Values {
			step(source.Index(i), "[]", v)
		}
	}
}

// With is c extended by the fields of more below a path.
func (c Cover) With(below string, more Cover) Cover {
	out := maps.Clone(c)
	if below != "" {
		below += "."
	}
	for k, v := range more {
		out[below+k] = v
	}
	return out
}

// Unknown notes a field that Kubernetes does not have; Leftovers then skips it.
func (r *Report) Unknown(d *source.Document, path []string, meant string) {
	text := "is not a field of Kubernetes here, and not carried over"
	if meant != "" {
		text += ": it is written " + meant
	}
	r.At(Lost, d, path, "%s", text)
	if r.strange == nil {
		r.strange = map[string]bool{}
	}
	r.strange[strangeKey(d, path)] = true
}

func strangeKey(d *source.Document, path []string) string {
	return fmt.Sprintf("%p %s", d, strings.Join(path, "\x00"))
}
