package importer

import (
	"cmp"
	"strings"
	"sync"
)

// A cover says of each field of a format what becomes of it: by its pattern, where *
// is any key, ? one that is not in it, x-* that of an extension, and [] any item. "" is carried over (or judged by the code that does);
// ignored does not matter to what runs, said is said; anything else says why it is lost. What is in
// no cover is lost too.
type cover map[string]string

// ignored are fields that say nothing about what runs; said begins the verdict of one
// that is worth a note and no loss.
const (
	ignored = "-"
	said    = "~"
)

const noCounterpart = "is not carried over: Verge has nothing like it"

// What containers have with Docker and Kubernetes, and not with Verge.
const (
	noWorkingDir = "is not carried over: an instance begins in the working directory of its image"
	noTerminal   = "is not carried over: an instance has no terminal (verge exec has one)"
	noInput      = "is not carried over: an instance has no input (verge exec has one)"
)

// trie is a cover by segments.
type trie struct {
	next    map[string]*trie
	verdict *string
	other   string // verdict on what is not in next
}

// lazy is the trie when it is first asked for: every command has this package in it, and few
// import anything.
func (c cover) lazy() func() *trie { return sync.OnceValue(c.trie) }

func (c cover) trie() *trie {
	top := &trie{next: map[string]*trie{}}
	for pattern, verdict := range c {
		t := top
		for _, s := range strings.Split(strings.ReplaceAll(pattern, "[]", ".[]"), ".") {
			if t.next[s] == nil {
				t.next[s] = &trie{next: map[string]*trie{}}
			}
			t = t.next[s]
		}
		t.verdict = &verdict
	}
	top.others()
	return top
}

// others takes the verdicts on what is not there.
func (t *trie) others() {
	if o := t.next["?"]; o != nil {
		t.other = *o.verdict
		delete(t.next, "?")
	}
	for _, next := range t.next {
		next.others()
	}
}

// leftovers notes everything in d below path, which is covered by t, that is not
// carried over.
func (r *report) leftovers(d *doc, n *node, path []string, t *trie) {
	if n.empty() {
		return
	}
	step := func(name, pattern string, v *node) {
		at := extend(path, name)
		inner := t.next[pattern]
		if inner == nil && strings.HasPrefix(name, "x-") {
			inner = t.next["x-*"]
		}
		if inner == nil {
			inner = t.next["*"]
		}
		switch {
		case v.empty() || r.strange[strangeKey(d, at)]:
		case inner == nil:
			r.at(Lost, d, at, "%s", cmp.Or(t.other, noCounterpart))
		case inner.verdict != nil && *inner.verdict == ignored:
		case inner.verdict != nil && strings.HasPrefix(*inner.verdict, said):
			r.at(Said, d, at, "%s", (*inner.verdict)[len(said):])
		case inner.verdict != nil && *inner.verdict != "":
			r.at(Lost, d, at, "%s", *inner.verdict)
		case len(inner.next) > 0 && v.kind == scalarKind:
			if inner.verdict == nil { // of which only what is in it is judged by others
				r.at(Lost, d, at, "is not carried over: it is a single value, and is to be a mapping or a list")
			}
		case len(inner.next) > 0:
			r.leftovers(d, v, at, inner)
		}
	}
	switch n.kind {
	case mappingKind:
		for i, k := range n.keys {
			step(k.name, k.name, n.values[i])
		}
	case listKind:
		for i, v := range n.values {
			step(index(i), "[]", v)
		}
	}
}
