package wire

import "github.com/verge-edge/verge/api"

// Bounds of hooks.
const (
	MaxHooks          = 64 // of a root
	MaxNamespaceHooks = 8  // of one namespace
	MaxHookBytes      = 32 << 10
	MaxHookURL        = 2000
	// MaxHookWait is how long a gate may take to answer, in seconds; HookWait is the default.
	MaxHookWait = 10
	HookWait    = 5
	// MaxHookKeep is how long an undelivered message is kept at most, in seconds; HookKeep is
	// the default.
	MaxHookKeep = 7 * 24 * 3600
	HookKeep    = 24 * 3600
	// MaxHookOverlap is how long two secrets sign at most, in seconds; HookOverlap is the
	// default.
	MaxHookOverlap = 30 * 24 * 3600
	HookOverlap    = 24 * 3600
)

// HookTest is the type of a message that is sent by hand, to any hook. All other types are
// kinds of events.
const HookTest = "hook.test"

// What a gate can be asked before.
const (
	GateApply   = "apply"   // a descriptor becomes another revision
	GateDelete  = "delete"  // an application is deleted
	GateScale   = "scale"   // verge scale
	GateUndo    = "undo"    // verge rollout undo, by a person; at a site: undoing a local change
	GateRestart = "restart" // verge restart
	GateWave    = "wave"    // each wave of a rollout, in the cluster that updates instances
)

// Gates are all of these.
var Gates = []string{GateApply, GateDelete, GateScale, GateUndo, GateRestart, GateWave}

// What a gate that does not answer means.
const (
	HookClosed = "closed" // what was asked for is refused
	HookOpen   = "open"   // it is done
)

// Codes of the problems with which a gate ends a change. Their texts are also for the audit
// log.
const (
	CodeHookRefused = "refused-by-hook"
	CodeHookSilent  = "hook-silent"
)

// HookSpec configures a hook.
type HookSpec struct {
	// URL that receives messages: https, or http if Plain allows it.
	URL string `json:"url"`
	// On are the kinds of events that it receives: "instance.failed", "instance.*", "*".
	On []string `json:"on,omitempty"`
	// Before lists what it is asked before: see Gates.
	Before []string `json:"before,omitempty"`
	// OnFailure is what happens if a gate does not answer; "" is HookClosed.
	OnFailure string `json:"on_failure,omitempty"`
	// WaitSeconds is how long an answer may take; 0 is HookWait.
	WaitSeconds int `json:"wait_seconds,omitempty"`
	// KeepSeconds is how long an undelivered message is kept; 0 is HookKeep.
	KeepSeconds int `json:"keep_seconds,omitempty"`
	// Plain allows a URL without TLS.
	Plain bool `json:"plain,omitempty"`
	// CA are the authorities, in PEM, that the receiver's certificate must come from; "" is
	// those of the system.
	CA string `json:"ca,omitempty"`
}

// HookData is the content of a message.
type HookData struct {
	Source      string     `json:"source"`  // "root", "cluster/edge": who says so
	Subject     string     `json:"subject"` // as of an Event
	Namespace   string     `json:"namespace,omitempty"`
	Application string     `json:"application,omitempty"`
	Service     string     `json:"service,omitempty"`
	Instance    InstanceID `json:"instance,omitempty"`
	Cluster     string     `json:"cluster,omitempty"`
	Revision    uint64     `json:"revision,omitempty"`
	// What happened, in words. By is who asks, in a question.
	What string `json:"what,omitempty"`
	By   string `json:"by,omitempty"`
	// Only in a question: the requested operation, and the new descriptor.
	Operation  string `json:"operation,omitempty"`
	Descriptor string `json:"descriptor,omitempty"`
	// Wave that GateWave asks about.
	Wave *HookWave `json:"wave,omitempty"`
}

// HookWave is a wave of a rollout in one cluster: a step of its trial, or the instances that
// are updated at one time.
type HookWave struct {
	// Number counts from 1, Of is the current number of waves. The first Steps waves are steps
	// of a trial, in which Share of the requests go to the new revision.
	Number int         `json:"number"`
	Of     int         `json:"of"`
	Steps  int         `json:"steps,omitempty"`
	Share  api.Percent `json:"share,omitempty"`
	// From is the previous revision.
	From uint64 `json:"from,omitempty"`
	// Promised is how many instances of the service the cluster is to run, Updated how many of
	// them have the new revision and are ready.
	Promised int `json:"promised"`
	Updated  int `json:"updated"`
	// New and Old are measurements of both revisions since the rollout began or was resumed,
	// nil for none.
	New *RolloutSide `json:"new,omitempty"`
	Old *RolloutSide `json:"old,omitempty"`
	// Clusters that have the service, and how many of them already run the new revision, as the
	// root says. 0: it was not asked.
	Clusters     int `json:"clusters,omitempty"`
	ClustersDone int `json:"clusters_done,omitempty"`
}

// HookLabel is what a hook is called in messages: "name" or "namespace/name".
func HookLabel(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
