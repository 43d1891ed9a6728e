package rest

import (
	"strings"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// What the views are, for who may see them.

func ofApp(v wire.AppView) access.Object {
	return access.Object{Kind: access.Application, Name: v.Name, Namespace: v.Namespace}
}

func ofInstance(v wire.InstanceView) access.Object {
	return access.Object{Kind: access.Instance, Name: v.ID, Namespace: v.Namespace, Cluster: v.Cluster}
}

func ofCluster(v wire.ClusterView) access.Object {
	return access.Object{Kind: access.Cluster, Name: v.Name, Cluster: v.Name}
}

func ofWorker(v wire.WorkerView) access.Object {
	return access.Object{Kind: access.Worker, Name: v.Cluster + "/" + v.Name, Cluster: v.Cluster}
}

// ofToken is what a token that is asked for lets its holder into.
func ofToken(in *tokenInput) access.Object {
	switch in.Body.Kind {
	case "worker", "plugin":
		return access.Object{Kind: access.Cluster}
	case "cluster":
		return access.Object{Kind: access.System}
	}
	// A token for programs is as good as who makes it: an administrator's.
	return access.Object{Kind: access.User}
}

// visibleStatus leaves of a status what who may see. The problems in it the
// backend makes of that alone.
func visibleStatus(s *Server, who access.Who, v wire.StatusView) wire.StatusView {
	v.Clusters = access.Visible(who, v.Clusters, func(c wire.ClusterView) access.Object { return s.here(ofCluster(c)) })
	v.Workers = access.Visible(who, v.Workers, func(w wire.WorkerView) access.Object { return s.here(ofWorker(w)) })
	v.Apps = access.Visible(who, v.Apps, func(a wire.AppView) access.Object { return s.here(ofApp(a)) })
	local := visibleLocal(s, who, wire.LocalView{Changes: v.Local, Conflicts: v.Conflicts})
	v.Local, v.Conflicts = local.Changes, local.Conflicts
	return v
}

// visibleEvents leaves of a page what who may see.
func visibleEvents(s *Server, who access.Who, page wire.EventPage) wire.EventPage {
	kept := []wire.Event{}
	for _, e := range page.Events {
		if s.seesEvent(who, e) {
			kept = append(kept, e)
		}
	}
	page.Events = kept
	return page
}

// seesEvent says whether who may see an event. It belongs to the namespace that its
// application was in then; and at the root an operator sees what its own cluster
// says, not what was thought of others before.
func (s *Server) seesEvent(who access.Who, e wire.Event) bool {
	if who.Admin {
		return true
	}
	kind, name, _ := strings.Cut(e.Subject, "/")
	o := access.Object{Kind: access.Kind(kind), Name: name}
	switch o.Kind {
	case access.Cluster:
		o.Cluster = name
	case access.Namespace:
		o.Namespace = name
	case access.Worker:
		o.Cluster, _, _ = strings.Cut(name, "/")
	case access.Application, access.Instance:
		if o.Namespace = e.Namespace; o.Namespace == "" {
			at, _ := s.backend.Locate(o.Kind, name)
			o.Namespace = at.Namespace
		}
		o.Cluster = clusterOf(e.Tier)
		if o = s.here(o); o.Namespace == "" && o.Cluster == "" {
			return false
		}
	default:
		return false
	}
	return access.May(who, access.See, s.here(o)) == nil
}

// clusterOf is the cluster of a tier: "cluster/edge", "worker/edge/w1"; "" of the
// root.
func clusterOf(tier string) string {
	kind, name, _ := strings.Cut(tier, "/")
	if kind != "cluster" && kind != "worker" {
		return ""
	}
	name, _, _ = strings.Cut(name, "/")
	return name
}
