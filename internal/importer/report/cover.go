package report

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/verge-edge/verge/internal/importer/source"
)

// A Cover says what becomes of each field of a format, by its pattern: * is any key, ? a key that is not
// listed, x-* an extension, and [] any item. "" is carried over, or judged by the code that does so;
// Ignored does not matter to what runs; what begins with Noted is worth a note and no loss; anything
// else is the reason why the field is lost. A field in no Cover is lost, too.
type Cover map[string]string

// ignored are fields that say nothing about what runs; said begins the verdict of one
// that is worth a note and no loss.
const (
	Ignored = "-"
	Noted   = "~"
)

// NoCounterpart is the reason of fields that nothing in Verge corresponds to.
const NoCounterpart = "is not carried over: Verge has nothing like it"

// What containers have with Docker and Kubernetes, and not with Verge.
const (
	NoWorkingDir = "is not carried over: an instance begins in the working directory of its image"
	NoTerminal   = "is not carried over: an instance has no terminal (verge exec has one)"
	NoInput      = "is not carried over: an instance has no input (verge exec has one)"
)

// Trie is a cover by segments.
type Trie struct {
	next    map[string]*Trie
	verdict *string
	other   string // verdict on what is not in next
}

// Lazy is the trie when it is first asked for: every command has this package in it, and few
// import anything.
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

// others takes the verdicts on what is not there.
func (t *Trie) others() {
	if o := t.next["?"]; o != nil {
		t.other = *o.verdict
		delete(t.next, "?")
	}
	for _, next := range t.next {
		next.others()
	}
}

// Leftovers notes everything in d below path, which is covered by t, that is not
// carried over.
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
			if inner.verdict == nil { // of which only what is in it is judged by others
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

// With is c and the fields of more below a path.
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

// Unknown notes what is not a field of Kubernetes, which leftovers then leaves alone.
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
