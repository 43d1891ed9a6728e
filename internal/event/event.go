package event

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Event is something that happened to a subject.
type Event struct {
	At   time.Time
	Tier string // that says so: "root", "cluster/edge", "worker/edge/w1"
	Kind Kind
	Name string // of the subject, without its type: "shop.web.0"
	Text string // for people
}

// Subject is what the event is about: "instance/shop.web.0".
func (e Event) Subject() string { return e.Kind.Subject(e.Name) }

// Kind of event. Only this package makes them, in kinds.go.
type Kind struct{ d *definition }

type definition struct {
	name     string
	subject  Subject
	severity Severity
	hooks    Hooks
	means    string
}

// def is the definition of the kind, an empty one for the zero Kind.
func (k Kind) def() definition {
	if k.d == nil {
		return definition{severity: Info}
	}
	return *k.d
}

// String is the name of the kind: "instance.moved".
func (k Kind) String() string { return k.def().name }

// Subject is the subject with a name: "instance/shop.web.0".
func (k Kind) Subject(name string) string {
	if name == "" {
		return string(k.About())
	}
	return string(k.About()) + "/" + name
}

// About is the type of its subject.
func (k Kind) About() Subject { return k.def().subject }

// Severity of the kind.
func (k Kind) Severity() Severity { return k.def().severity }

// Hooks are those that can be told of the kind.
func (k Kind) Hooks() Hooks { return k.def().hooks }

// Means says in a sentence what happened.
func (k Kind) Means() string { return k.def().means }

// On is an event of this kind, about the subject with a name. Whoever adds it says when it happened
// and which tier says so.
func (k Kind) On(name, format string, args ...any) Event {
	return Event{Kind: k, Name: name, Text: fmt.Sprintf(format, args...)}
}

// By is the event with when it happened and the tier that says so.
func (e Event) By(at time.Time, tier string) Event {
	e.At, e.Tier = at, tier
	return e
}

// Subject is a type of subject.
type Subject string

// Types of subjects, and what their names look like.
const (
	Application Subject = "application" // shop
	Cluster     Subject = "cluster"     // edge
	Hook        Subject = "hook"        // audit, shop/audit: wire.HookLabel
	Instance    Subject = "instance"    // shop.web.0
	Namespace   Subject = "namespace"   // shop
	Root        Subject = "root"        // no name
	Service     Subject = "service"     // shop.web
	System      Subject = "system"      // root
	Worker      Subject = "worker"      // edge/w1: WorkerName
)

// WorkerName is the name of a worker as a subject.
func WorkerName(cluster, worker string) string { return cluster + "/" + worker }

// Severity of an event: how it is logged.
type Severity int

// Severities. Debug is for what happens all the time.
const (
	Debug Severity = iota
	Info
	Warning
	Error
)

// String is the severity in a word.
func (s Severity) String() string { return [...]string{"debug", "info", "warning", "error"}[s] }

// Hooks says whose hooks can be told of a kind.
type Hooks string

// Tiers whose hooks can be told.
const (
	NoHooks      Hooks = ""
	RootHooks    Hooks = "root"
	ClusterHooks Hooks = "cluster"
	AllHooks     Hooks = "root, cluster"
)

var all []Kind

// register adds a kind to the table. The name begins with the word under which people look for it,
// which is often the type of the subject.
func register(name string, about Subject, severity Severity, hooks Hooks, means string) Kind {
	if _, ok := Find(name); ok {
		panic("event: two kinds are called " + name)
	}
	k := Kind{&definition{name, about, severity, hooks, means}}
	all = append(all, k)
	return k
}

// Kinds are all kinds, in the order of the table.
func Kinds() []Kind { return slices.Clone(all) }

// Told says whether hooks of a tier can be told of the kind; tier "": those of any.
func (k Kind) Told(tier string) bool {
	h := k.Hooks()
	return h == AllHooks || h != NoHooks && (tier == "" || string(h) == tier)
}

// Matches says whether one of a list of patterns is for a kind: its name, "instance.*", or "*".
func Matches(patterns []string, kind string) bool {
	family, _, _ := strings.Cut(kind, ".")
	return slices.Contains(patterns, kind) || slices.Contains(patterns, "*") || slices.Contains(patterns, family+".*")
}

// Find returns the kind with a name.
func Find(name string) (Kind, bool) {
	i := slices.IndexFunc(all, func(k Kind) bool { return k.String() == name })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}
