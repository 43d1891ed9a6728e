package wire

import (
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
)

// Bounds of hooks.
const (
	MaxHooks          = 64 // of a root
	MaxNamespaceHooks = 8  // of one namespace
	MaxHookBytes      = 32 << 10
	MaxHookURL        = 2000
	// MaxHookWait is how long a gate may take to answer, in seconds; HookWait is that of
	// one that says nothing.
	MaxHookWait = 10
	HookWait    = 5
	// MaxHookKeep is how long what could not be delivered is kept at most, in seconds;
	// HookKeep is that of a hook that says nothing.
	MaxHookKeep = 7 * 24 * 3600
	HookKeep    = 24 * 3600
	// MaxHookOverlap is for how long two secrets sign at most, in seconds; HookOverlap is
	// that of who says nothing.
	MaxHookOverlap = 30 * 24 * 3600
	HookOverlap    = 24 * 3600
)

// What notices are about.
const (
	HookApplicationApplied  = "application.applied"
	HookApplicationDeleting = "application.deleting"
	HookApplicationDeleted  = "application.deleted"
	HookInstanceRunning     = "instance.running"
	HookInstanceFailed      = "instance.failed"
	HookInstancePreempted   = "instance.preempted"
	HookInstanceMoved       = "instance.moved"
	HookInstanceWaiting     = "instance.waiting"
	HookInstanceUnreachable = "instance.unreachable"
	HookInstanceEnded       = "instance.ended"
	HookRolloutDone         = "rollout.done"
	HookRolloutFailed       = "rollout.failed"
	HookJobSucceeded        = "job.succeeded"
	HookJobFailed           = "job.failed"
	HookClusterJoined       = "cluster.joined"
	HookClusterLost         = "cluster.lost"
	HookClusterBack         = "cluster.back"
	HookClusterRemoved      = "cluster.removed"
	HookWorkerJoined        = "worker.joined"
	HookWorkerLost          = "worker.lost"
	HookWorkerBack          = "worker.back"
	HookWorkerRemoved       = "worker.removed"
	HookLocalChanged        = "local.changed"
	HookLocalOverruled      = "local.overruled"
	HookTest                = "hook.test" // sent by hand, to any hook
)

// Tiers that have hooks.
const (
	HookOfRoot    = "root"
	HookOfCluster = "cluster"
)

// HookKind is something that a hook can be told of.
type HookKind struct {
	Kind, Means string
	// Of is the tier whose hooks alone are told of it; "" is of both.
	Of string
}

// HookKinds are all that a hook can be told of, and what each means.
var HookKinds = []HookKind{
	{HookApplicationApplied, "a descriptor was applied, scaled or brought back: there is another revision", HookOfRoot},
	{HookApplicationDeleting, "its end was asked for", HookOfRoot},
	{HookApplicationDeleted, "nothing is left of it", HookOfRoot},
	{HookInstanceRunning, "it has started, here or on another worker, for the first time or again", ""},
	{HookInstanceFailed, "it has ended otherwise than well, was refused, or was lost with its worker", ""},
	{HookInstancePreempted, "it has ended so that one of a higher priority has room", ""},
	{HookInstanceMoved, "it was moved to another worker, make before break", ""},
	{HookInstanceWaiting, "its cluster returned it, and it waits for a place", ""},
	{HookInstanceUnreachable, "its cluster has been away for so long that it is replaced elsewhere", HookOfRoot},
	{HookInstanceEnded, "it has ended as it should, or is not wanted any more", ""},
	{HookRolloutDone, "a cluster runs the new revision of a service", ""},
	{HookRolloutFailed, "a cluster has stopped bringing a service to another revision", ""},
	{HookJobSucceeded, "a run of a job is complete", ""},
	{HookJobFailed, "a run of a job has failed", ""},
	{HookClusterJoined, "a cluster has joined, or joined again", HookOfRoot},
	{HookClusterLost, "a cluster is not heard any more", HookOfRoot},
	{HookClusterBack, "a cluster is heard again", HookOfRoot},
	{HookClusterRemoved, "a cluster was removed", HookOfRoot},
	{HookWorkerJoined, "a worker has joined, or joined again", HookOfCluster},
	{HookWorkerLost, "a worker is not heard any more, or says that it cannot be counted on", HookOfCluster},
	{HookWorkerBack, "a worker is heard again", HookOfCluster},
	{HookWorkerRemoved, "a worker was removed", HookOfCluster},
	{HookLocalChanged, "what runs at this site was changed here, or such a change was taken back", HookOfCluster},
	{HookLocalOverruled, "a change that was made here gave way to what the root says", HookOfCluster},
}

// What a gate can be asked before.
const (
	GateApply   = "apply"   // a descriptor becomes another revision
	GateDelete  = "delete"  // the end of an application
	GateScale   = "scale"   // verge scale
	GateUndo    = "undo"    // verge rollout undo, by somebody; at a site: taking back what was changed there
	GateRestart = "restart" // verge restart
	GateWave    = "wave"    // each wave of a rollout, in the cluster that brings instances to another revision
)

// Gates are all of these.
var Gates = []string{GateApply, GateDelete, GateScale, GateUndo, GateRestart, GateWave}

// What a gate that does not answer means.
const (
	HookClosed = "closed" // what was asked for is refused
	HookOpen   = "open"   // it is done
)

// Codes of the problems with which a gate ends a change. What they say is for the audit
// log too.
const (
	CodeHookRefused = "refused-by-hook"
	CodeHookSilent  = "hook-silent"
)

// HookWants says whether a list of what a hook is told of has a kind: by its name, by
// "instance.*", or by "*".
func HookWants(on []string, kind string) bool {
	family, _, _ := strings.Cut(kind, ".")
	return slices.Contains(on, kind) || slices.Contains(on, "*") || slices.Contains(on, family+".*")
}

// HookSpec is what a hook is to do.
type HookSpec struct {
	// URL that is told or asked: https, or http where Plain allows it.
	URL string `json:"url"`
	// On are the kinds of what it is told: "instance.failed", "instance.*", "*".
	On []string `json:"on,omitempty"`
	// Before is what it is asked before: see Gates.
	Before []string `json:"before,omitempty"`
	// OnFailure is what it means if a gate does not answer; "" is HookClosed.
	OnFailure string `json:"on_failure,omitempty"`
	// WaitSeconds is how long an answer may take; 0 is HookWait.
	WaitSeconds int `json:"wait_seconds,omitempty"`
	// KeepSeconds is how long what could not be delivered is kept; 0 is HookKeep.
	KeepSeconds int `json:"keep_seconds,omitempty"`
	// Plain allows a URL without TLS.
	Plain bool `json:"plain,omitempty"`
	// CA are authorities in PEM that the receiver's certificate must come from; "" are
	// those of the system.
	CA string `json:"ca,omitempty"`
}

// HookRequest makes or changes a hook.
type HookRequest struct {
	HookSpec
	// Secret signs from now on: whsec_ and 24 to 64 bytes in base64. "" leaves what is
	// there; a new hook needs one.
	Secret string `json:"secret,omitempty"`
	// OverlapSeconds is for how long the one before signs too; 0 is HookOverlap, -1 not
	// at all.
	OverlapSeconds int `json:"overlap_seconds,omitempty"`
}

// HookSecret is one secret of a hook, sealed.
type HookSecret struct {
	ID     string    `json:"id"`
	Key    string    `json:"key"` // the id of the key that it is sealed for
	Sealed []byte    `json:"sealed"`
	Set    time.Time `json:"set"`
	// Until is when it ceases to sign, since there is a newer one; zero: it is the newest.
	Until time.Time `json:"until,omitzero"`
}

// Hook is the record of a hook.
type Hook struct {
	V int `json:"v"`
	// ID is this hook's and not that of another one which had its name.
	ID        string `json:"id"`
	Namespace string `json:"namespace,omitempty"` // "" for what belongs to none
	Name      string `json:"name"`
	HookSpec
	// Secrets, the newest first; two at most.
	Secrets []HookSecret `json:"secrets"`
	Created time.Time    `json:"created"`
	// Since is when it was made, or last began to be told of more: nothing of what was
	// before is told.
	Since time.Time `json:"since"`
	By    string    `json:"by,omitempty"`
	// Paused: nothing is sent and it is asked nothing, By and since when.
	Paused   string    `json:"paused,omitempty"`
	PausedAt time.Time `json:"paused_at,omitzero"`
	// Dropped counts the notices that were given up, Why the last of them was, and when.
	Dropped   uint64    `json:"dropped,omitempty"`
	DropWhy   string    `json:"drop_why,omitempty"`
	DroppedAt time.Time `json:"dropped_at,omitzero"`
}

// HookItem is a notice that waits for one hook.
type HookItem struct {
	V    int    `json:"v"`
	ID   string `json:"id"` // by which its receiver knows it again
	Kind string `json:"kind"`
	// Queued is when it was stored, by the clock of who stored it.
	Queued time.Time `json:"queued"`
	// Body is what is sent, and signed: a HookMessage.
	Body string `json:"body"`
}

// HookMark is how far what happened to one subject has been told.
type HookMark struct {
	V  int    `json:"v"`
	At string `json:"at"`
	// Namespace of the subject; "" for one of none.
	Namespace string `json:"namespace,omitempty"`
}

// HookMessage is what a hook is sent.
type HookMessage struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // when it happened, by the clock of who says so
	Data      HookData  `json:"data"`
}

// HookData is what a message says.
type HookData struct {
	Source      string     `json:"source"`  // "root", "cluster/edge": who says so
	Subject     string     `json:"subject"` // as of an Event
	Namespace   string     `json:"namespace,omitempty"`
	Application string     `json:"application,omitempty"`
	Service     string     `json:"service,omitempty"`
	Instance    InstanceID `json:"instance,omitempty"`
	Cluster     string     `json:"cluster,omitempty"`
	Revision    uint64     `json:"revision,omitempty"`
	// What happened, in words; of a question who asks for it is By.
	What string `json:"what,omitempty"`
	By   string `json:"by,omitempty"`
	// Of a question alone: what is asked for, and the descriptor as it is to be.
	Operation  string `json:"operation,omitempty"`
	Descriptor string `json:"descriptor,omitempty"`
	// Wave that GateWave asks about.
	Wave *HookWave `json:"wave,omitempty"`
}

// HookWave is a wave of a rollout in one cluster: a step of its trial, or so many instances
// as are brought to the new revision at a time.
type HookWave struct {
	// Number counts from 1, Of is how many there are as things are now. The first Steps of
	// them are steps of a trial, in which Share of the requests go to the new revision.
	Number int         `json:"number"`
	Of     int         `json:"of"`
	Steps  int         `json:"steps,omitempty"`
	Share  api.Percent `json:"share,omitempty"`
	// From is the revision before.
	From uint64 `json:"from,omitempty"`
	// Promised is how many instances of the service there are to be in the cluster, Updated
	// how many of them are of the new revision and ready.
	Promised int `json:"promised"`
	Updated  int `json:"updated"`
	// New and Old are what was measured of both revisions since the rollout began or was
	// resumed; nil: nothing.
	New *RolloutSide `json:"new,omitempty"`
	Old *RolloutSide `json:"old,omitempty"`
	// Clusters that have the service, and how many of them run the new revision already: the
	// root knows. 0: it was not asked.
	Clusters     int `json:"clusters,omitempty"`
	ClustersDone int `json:"clusters_done,omitempty"`
}

// GateQuestion is what a cluster asks the hooks of its root about, GateReply their word.
type GateQuestion struct {
	V    int      `json:"v"`
	Data HookData `json:"d"`
}

// GateReply answers a GateQuestion.
type GateReply struct {
	V int `json:"v"`
	// Warnings are about hooks that did not answer and are not needed.
	Warnings []string `json:"w,omitempty"`
	// Problem is what those that are needed have against it; nil: nothing.
	Problem *Problem `json:"p,omitempty"`
}

// HookAnswer is what a gate says.
type HookAnswer struct {
	// Allow must be there: an answer without it is none.
	Allow  *bool  `json:"allow"`
	Reason string `json:"reason,omitempty"`
}

// HookView is a hook as people see it. Its secrets are not in it.
type HookView struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	HookSpec
	Created time.Time `json:"created"`
	By      string    `json:"by,omitempty" doc:"who made or changed it last"`
	// State in one word, and why in words.
	State string `json:"state" enum:"ready,waiting,failing,paused,broken" doc:"ready: all was delivered; waiting: about to be; failing: not accepted, tried again; paused: by somebody; broken: its secret cannot be read"`
	Why   string `json:"why,omitempty"`
	// SecretSet is when its secret was, Overlap until when the one before signs too.
	SecretSet time.Time `json:"secret_set,omitzero"`
	Overlap   time.Time `json:"overlap,omitzero"`
	// Waiting notices, and how old the oldest of them is.
	Waiting       int     `json:"waiting"`
	OldestSeconds float64 `json:"oldest_seconds,omitempty"`
	// Since the process started: Delivered notices, Failures to deliver one; and how often
	// it Allowed, Refused, or did not answer when it was asked (Silent).
	Delivered uint64 `json:"delivered"`
	Failures  uint64 `json:"failures"`
	Allowed   uint64 `json:"allowed,omitempty"`
	Refused   uint64 `json:"refused,omitempty"`
	Silent    uint64 `json:"silent,omitempty"`
	// Dropped were given up, since it was made.
	Dropped   uint64    `json:"dropped,omitempty"`
	DropWhy   string    `json:"drop_why,omitempty"`
	DroppedAt time.Time `json:"dropped_at,omitzero"`
	// Last is what came of the last attempt, and when; Next when it is tried again.
	Last   string    `json:"last,omitempty"`
	LastAt time.Time `json:"last_at,omitzero"`
	Next   time.Time `json:"next,omitzero"`
}

// HookTested is what came of a test.
type HookTested struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// What came of it, in words.
	What        string  `json:"what"`
	TookSeconds float64 `json:"took_seconds"`
}

// HookLabel is what a hook is called in messages: "name" or "namespace/name".
func HookLabel(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
