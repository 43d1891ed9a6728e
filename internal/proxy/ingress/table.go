package ingress

import (
	"cmp"
	"net"
	"slices"
	"strings"
)

// Rule publishes something of the caller's under a host.
type Rule struct {
	// Host in lower case without final dot; "*.example.org" is every name with one
	// label more.
	Host string
	// Prefixes of paths without final slash; "" is all.
	Prefixes []string
}

// Table finds the rule of a request. It does not change.
type Table struct {
	hosts map[string][]place // by host, "*" in place of the first label of wildcards
}

// place is one prefix of a rule.
type place struct {
	prefix string
	rule   int
}

// Conflict is a host and path that two rules have; the first one counts.
type Conflict struct {
	Host, Prefix string
	First, Other int // indexes of the rules
}

// New makes a Table. Of rules with the same host and path the first counts.
func New(rules []Rule) (*Table, []Conflict) {
	t := &Table{hosts: make(map[string][]place, len(rules))}
	var twice []Conflict
	for i, r := range rules {
		for _, prefix := range r.Prefixes {
			at := t.hosts[r.Host]
			if j := slices.IndexFunc(at, func(p place) bool { return p.prefix == prefix }); j >= 0 {
				twice = append(twice, Conflict{r.Host, prefix, at[j].rule, i})
				continue
			}
			t.hosts[r.Host] = append(at, place{prefix, i})
		}
	}
	for _, at := range t.hosts {
		slices.SortStableFunc(at, func(a, b place) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	}
	return t, twice
}

// Found is what a Table says about a request.
type Found int

// What it can say.
const (
	// Match: the rule is this.
	Match Found = iota
	// NoHost: nobody publishes the host.
	NoHost
	// NoPath: somebody does, but not this path.
	NoPath
	// OddPath: the path has dot segments, and which rule they lead to depends on who
	// resolves them.
	OddPath
)

// Find returns the rule of a request and the prefix by which it was found. host is
// canonical (CanonicalHost), path as Path returns it.
func (t *Table) Find(host, path string) (rule int, prefix string, found Found) {
	at := t.of(host)
	if at == nil {
		return 0, "", NoHost
	}
	if rule, ok := t.Whole(host); ok {
		return rule, "", Match
	}
	if dotted(path) {
		return 0, "", OddPath
	}
	for _, p := range at {
		if within(path, p.prefix) {
			return p.rule, p.prefix, Match
		}
	}
	return 0, "", NoPath
}

// Whole returns the rule of a host to which all paths belong; false where there is no
// such rule, or one for some of the paths beside it.
func (t *Table) Whole(host string) (rule int, ok bool) {
	if at := t.of(host); len(at) == 1 && at[0].prefix == "" {
		return at[0].rule, true
	}
	return 0, false
}

// of are the places of a host.
func (t *Table) of(host string) []place {
	if at := t.hosts[host]; at != nil {
		return at
	}
	if _, parent, ok := strings.Cut(host, "."); ok {
		return t.hosts["*."+parent]
	}
	return nil
}

// Host returns the host as it is published ("*.example.org" for one of its names);
// false where nobody does.
func (t *Table) Host(host string) (string, bool) {
	if t.hosts[host] != nil {
		return host, true
	}
	if _, parent, ok := strings.Cut(host, "."); ok && t.hosts["*."+parent] != nil {
		return "*." + parent, true
	}
	return "", false
}

// within says whether a path is prefix or below it.
func within(path, prefix string) bool {
	return len(path) >= len(prefix) && path[:len(prefix)] == prefix &&
		(len(path) == len(prefix) || path[len(prefix)] == '/')
}

// dotted says whether a path has a segment . or .., as it is or encoded.
func dotted(path string) bool {
	if !strings.Contains(path, "/.") {
		return false
	}
	for s := range strings.SplitSeq(path, "/") {
		if s == "." || s == ".." {
			return true
		}
	}
	return false
}

// Path brings an encoded path into the form in which paths are compared: characters
// that need no encoding are decoded. What is left is an encoded path still.
func Path(escaped string) string {
	i := strings.IndexByte(escaped, '%')
	if i < 0 {
		return escaped
	}
	var b strings.Builder
	b.Grow(len(escaped))
	for ; i >= 0; i = strings.IndexByte(escaped, '%') {
		b.WriteString(escaped[:i])
		escaped = escaped[i:]
		n := 1
		if c, ok := decoded(escaped); ok && unreserved(c) {
			b.WriteByte(c)
			n = 3
		} else {
			b.WriteByte('%')
		}
		escaped = escaped[n:]
	}
	b.WriteString(escaped)
	return b.String()
}

// decoded is the byte that s, which begins with %, encodes first.
func decoded(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	hi, lo := digit(s[1]), digit(s[2])
	return hi<<4 | lo, hi < 16 && lo < 16
}

func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}

// unreserved characters mean the same encoded or not (RFC 3986, 2.3).
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' ||
		c == '~'
}

// CanonicalHost is the host of a Host header: lower case, without port, brackets
// and final dot.
func CanonicalHost(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
