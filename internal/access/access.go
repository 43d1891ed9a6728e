package access

import (
	"fmt"
	"slices"
	"strings"
)

// Role in a namespace or at a cluster.
type Role string

// The roles. Viewer and Developer are of a namespace, Operator is of a cluster.
const (
	Viewer    Role = "viewer"
	Developer Role = "developer"
	Operator  Role = "operator"
)

// Who asks. The zero value may do nothing.
type Who struct {
	// Name for logs and the audit log: "admin/ann", "user/bob", "token/1a2b3c4d".
	Name string
	// Admin may do everything here.
	Admin bool
	// Monitor may read figures: a program that collects them.
	Monitor bool
	// Node is a cluster at its root, or a worker at its cluster: it may read the
	// objects of the namespaces in Reads, store some in those in Writes, and nothing
	// else.
	Node          bool
	Reads, Writes map[string]bool
	// Namespaces and Clusters are the roles, by name. A developer is a viewer too.
	Namespaces map[string]Role
	Clusters   map[string]Role
}

// Verb is what somebody wants to do.
type Verb string

// The verbs. An operation of the HTTP interface names one of them.
const (
	// See state: get, list, describe, explain, events, watch, metrics of one thing.
	See Verb = "see"
	// Logs and Top read more of an instance than its state.
	Logs Verb = "logs"
	Top  Verb = "top"
	// Plan says what an apply would do; it is for who may do that.
	Plan Verb = "plan"
	// What changes an application or what runs of it.
	Apply   Verb = "apply"
	Delete  Verb = "delete"
	Scale   Verb = "scale"
	Restart Verb = "restart"
	Exec    Verb = "exec"
	// Profile keeps what runs of an application busy, to see how much it does.
	Profile Verb = "profile"
	// Secret is to list, set and delete the secrets of a namespace. Their values
	// cannot be read by anybody.
	Secret Verb = "secret"
	// Hook is to list, make and remove the hooks of a namespace, or of all.
	Hook Verb = "hook"
	// Fetch reads objects of a namespace, Store puts and removes them.
	Fetch Verb = "fetch"
	Store Verb = "store"
	// Operate changes a cluster or a worker: cordon, drain, remove, edits at a site.
	Operate Verb = "operate"
	// Admit makes tokens for workers of a cluster.
	Admit Verb = "admit"
	// Measure reads figures of the whole, or of a worker, which name what is in it.
	Measure Verb = "measure"
	// Audit reads the audit log.
	Audit Verb = "audit"
	// Manage is for administrators alone: people, namespaces, tokens for clusters
	// and programs, certificates, backups.
	Manage Verb = "manage"
)

// verbs says what each verb is called in a sentence, and whether a viewer of a
// namespace (and, at the root, the operator of a cluster in which it runs) may
// do it.
var verbs = map[Verb]struct {
	doing string
	read  bool
}{
	See: {"reading", true}, Logs: {"reading the log of", true}, Top: {"measuring", true},
	Plan:  {"planning a change of", false},
	Apply: {"changing", false}, Delete: {"deleting", false}, Scale: {"scaling", false}, Restart: {"restarting", false},
	Exec: {"running a command in", false}, Profile: {"profiling", false}, Secret: {"using the secrets of", false},
	Hook:  {"managing the hooks of", false},
	Fetch: {"reading", true}, Store: {"storing in", false},
	Operate: {"operating", false}, Admit: {"admitting workers to", false}, Audit: {"reading the audit log of", false},
	Measure: {"reading the metrics of", false},
	Manage:  {"managing", false},
}

// Kind of an object, as in "application/shop".
type Kind string

// The kinds.
const (
	Application Kind = "application"
	Instance    Kind = "instance"
	Namespace   Kind = "namespace"
	Secrets     Kind = "secret"
	Cluster     Kind = "cluster"
	Worker      Kind = "worker"
	// User is a person, or a program with a token: whatever the verb, for
	// administrators alone.
	User Kind = "user"
	// System is the root or the cluster itself.
	System Kind = "system"
)

// Object is what somebody wants to do something with.
type Object struct {
	Kind Kind
	Name string
	// Namespace that it belongs to; "" for what belongs to none.
	Namespace string
	// Cluster that it is in; "" for what is in none, or in several.
	Cluster string
	// Site: it is the cluster's own interface that is asked.
	Site bool
}

// String is "application/shop"; "the system" for that itself, "users" for all of
// them.
func (o Object) String() string {
	switch {
	case o.Kind == System:
		return "the system"
	case o.Name == "":
		return string(o.Kind) + "s"
	}
	return string(o.Kind) + "/" + o.Name
}

// Denied is a refusal.
type Denied struct {
	Who    string
	Verb   Verb
	Object Object
	// Hidden: who asks may not know that the object exists.
	Hidden bool
	// Needs says which role would do: "developer of namespace shop".
	Needs string
}

// Error is the reason. Of a hidden object it says as much as of one that does not
// exist.
func (d *Denied) Error() string {
	if d.Hidden {
		return fmt.Sprintf("there is no such %s: %s", d.Object.Kind, d.Object.Name)
	}
	return fmt.Sprintf("%s may not do that: %s %s needs %s", d.Who, d.Verb.doing(), d.Object, d.Needs)
}

func (v Verb) doing() string {
	if t, ok := verbs[v]; ok {
		return t.doing
	}
	return "doing something unknown to"
}

// May says whether w may do v with o: nil, or a *Denied with the reason.
func May(w Who, v Verb, o Object) error {
	t, known := verbs[v]
	if known && w.Admin {
		return nil
	}
	if w.Node {
		return w.mayAsNode(v, o)
	}
	role, operates := w.Namespaces[o.Namespace], w.Clusters[o.Cluster] == Operator
	if o.Namespace == "" {
		role = ""
	}
	if o.Cluster == "" {
		operates = false
	}
	d := &Denied{Who: w.Name, Verb: v, Object: o, Needs: needs(v, t.read, o)}
	switch inNamespace, belongs := role == Developer || role == Viewer, o.Namespace != "" || o.Cluster != ""; {
	case !known, v == Manage, o.Kind == User:
		d.Hidden = belongs && !inNamespace && !operates
		return d
	case w.Monitor && v == Measure && (o.Kind == System || o.Kind == Worker):
		return nil
	case operates && (t.read || o.Namespace == "" || o.Site):
		return nil
	case ofNamespace(v) && (role == Developer || (role == Viewer && t.read)):
		return nil
	default:
		d.Hidden = belongs && !inNamespace && !operates
		return d
	}
}

// mayAsNode is May for a node.
func (w Who) mayAsNode(v Verb, o Object) error {
	if o.Kind == Namespace && (v == Fetch && w.Reads[o.Namespace] || v == Store && w.Writes[o.Namespace]) {
		return nil
	}
	return &Denied{Who: w.Name, Verb: v, Object: o, Needs: "an instance of the namespace there"}
}

// ofNamespace: a role in a namespace can never give what belongs to a cluster.
func ofNamespace(v Verb) bool { return v != Operate && v != Admit && v != Audit && v != Measure }

// needs says which role would do.
func needs(v Verb, read bool, o Object) string {
	var roles []string
	if v != Manage && o.Kind != User {
		if o.Namespace != "" && ofNamespace(v) {
			role := Developer
			if read {
				role = Viewer
			}
			roles = append(roles, fmt.Sprintf("%s of namespace %s", role, o.Namespace))
		}
		if o.Cluster != "" && (read || o.Namespace == "" || o.Site) {
			roles = append(roles, fmt.Sprintf("%s of cluster %s", Operator, o.Cluster))
		}
		if v == Measure && (o.Kind == System || o.Kind == Worker) {
			roles = append(roles, "monitor")
		}
	}
	return strings.Join(append(roles, "an administrator"), " or ")
}

// Visible are the objects of list that w may see, in their order. of says what
// an element is.
func Visible[T any](w Who, list []T, of func(T) Object) []T {
	if w.Admin {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(v T) bool { return May(w, See, of(v)) != nil })
}
