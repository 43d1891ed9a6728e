package wire

import (
	"encoding/json"
	"time"
)

// The exchange of revisions, the same between worker and cluster as between
// cluster and root (see internal/bus/exchange). The lower side opens every
// exchange; the upper side may only nudge it.

// Change is the latest value of one key, or its tombstone.
type Change struct {
	Key     string          `json:"k"`
	Value   json.RawMessage `json:"v,omitempty"`
	Deleted bool            `json:"d,omitempty"`
	// Packed is a large value that is sent compressed (Pack), in place of Value, to those
	// who asked for it; see Unpack.
	Packed []byte `json:"z,omitempty"`
}

// Report goes up every λ and after every change. An idle one is a few dozen
// bytes: all but V and Have are left out.
type Report struct {
	V int `json:"v"`
	// Have is the revision of the desired state that the sender has stored.
	Have Rev `json:"h,omitzero"`
	// Proof is what the receiver gave with Have (see FetchReply.Proof). It is sent
	// with the first report after a connection was made, where there is one.
	Proof []byte `json:"pf,omitempty"`
	// Changes lead the sender's observed state from From to To; a zero From
	// means that they are all of it (Full). Left out when there is nothing new.
	From    Rev      `json:"f,omitzero"`
	To      Rev      `json:"t,omitzero"`
	Changes []Change `json:"c,omitempty"`
	// More: the next report continues from To; a full one counts only when its
	// last page is there.
	More bool `json:"m,omitempty"`
	// Status is volatile: load, aggregate, capacity. Never stored.
	Status json.RawMessage `json:"s,omitempty"`
	// Uses are the services that the sender uses, where the receiver may not know it;
	// nil says that they are as before.
	Uses *Uses `json:"us,omitempty"`
	// Next is when the sender will report again at the latest, in milliseconds:
	// the λ that silence is measured against.
	Next int `json:"x,omitempty"`
	// At is the sender's clock, in seconds of Unix time; 0 by those that do not say.
	At int64 `json:"u,omitempty"`
	// Leaving announces that the sender ends now and means to be back soon: what
	// it runs goes on, and is not to be replaced in a hurry.
	Leaving bool `json:"l,omitempty"`
}

// MaxUses bounds what is said in a Uses; who uses more says All.
const MaxUses = 2048

// Uses are the services whose endpoints a worker needs.
type Uses struct {
	// All of them: the rest says nothing.
	All bool `json:"all,omitempty"`
	// Apps are applications of which it needs all services, Services single ones
	// ("<application>.<service>"), both sorted.
	Apps     []string `json:"apps,omitempty"`
	Services []string `json:"services,omitempty"`
}

// ReportReply answers a Report.
type ReportReply struct {
	V int `json:"v"`
	// Want is the current revision of the sender's desired state. If it differs
	// from Report.Have the sender fetches.
	Want Rev `json:"w,omitzero"`
	// Proof belongs to Want, for a sender that has Want without a proof.
	Proof []byte `json:"pf,omitempty"`
	// Ack is the revision of the sender's observed state that is now stored
	// here. The sender keeps everything newer.
	Ack Rev `json:"a,omitzero"`
	// Was is what had been taken over before the report replaced all of it, where
	// that was of another era: a sender that does not know it is an older copy.
	Was Rev `json:"was,omitzero"`
	// NeedStatus asks for Status with the next report, at once.
	NeedStatus bool `json:"ns,omitempty"`
	// Heeds says that the sender is told the endpoints of those services alone that it
	// said it uses; false also by those who do not know of that.
	Heeds bool `json:"hd,omitempty"`
	// Interval is the longest time to the next report in milliseconds, from now on;
	// 0 leaves it as it is.
	Interval int `json:"l,omitempty"`
	// Renew asks the sender to renew its certificate now: who it is to trust has
	// changed.
	Renew bool `json:"rn,omitempty"`
	// NoGateway says that the sender is a gateway with TLS and may not be one, so that it
	// is given no certificates; false also by those who do not know of grants.
	NoGateway bool `json:"ng,omitempty"`
	// Refused says why the report was not accepted ("" if it was).
	Refused string `json:"e,omitempty"`
}

// Fetch asks for what changed in the desired state since Since.
type Fetch struct {
	V     int `json:"v"`
	Since Rev `json:"s,omitzero"`
	// At is the Rev that the previous page led to, zero for the first page. If what
	// followed it is not known any more the reply has Moved and the sender starts
	// again.
	At Rev `json:"at,omitzero"`
	// After is the last key of the previous page, empty for the first. Only upper
	// sides of before pages went by revision look at it.
	After string `json:"p,omitempty"`
	// Unpacks: the sender reads packed changes.
	Unpacks bool `json:"z,omitempty"`
}

// FetchReply is one page of the answer.
type FetchReply struct {
	V int `json:"v"`
	// Full, in the first page: Since was unknown here; the changes of all pages
	// together are the whole state and every other key is to be dropped.
	Full bool `json:"f,omitempty"`
	// To is the Rev that this page leads to.
	To Rev `json:"t"`
	// Proof is a code for To that only the upper side can make. The lower side keeps
	// it with the revision. An upper side that finds a revision ahead of its own
	// store believes it only with this proof. Not there in those of before.
	Proof   []byte   `json:"pf,omitempty"`
	Changes []Change `json:"c,omitempty"`
	More    bool     `json:"m,omitempty"`
	Moved   bool     `json:"mv,omitempty"`
}

// Down is what the upper side sends to the lower one unasked. Questions (Ask)
// are requests on a subject of their own.
type Down struct {
	V int `json:"v"`
	// Nudge asks for a report now.
	Nudge bool `json:"n,omitempty"`
	// News is what a Fetch since Since would have got, where it is all and little: who has
	// Since, or something between it and News.To, need not fetch. Those who do not know of
	// it report and fetch.
	Since Rev         `json:"s,omitzero"`
	News  *FetchReply `json:"f,omitempty"`
}

// Ask is a question. What is one of "logs", "explain" (of Instance), "entries"
// (of Worker), "workers", "metrics", AskPlan, "volumes", "top" and "top-workers"
// (of a cluster, those after Instance or Worker), which are read-only, "exec",
// "remove-volume", AskUpgrade, and AskCordon, AskUncordon and AskDrain of Worker.
type Ask struct {
	What     string `json:"w"`
	Instance string `json:"i,omitempty"`
	Worker   string `json:"n,omitempty"`
	// After is the key of the last share of the page before (AskHoldings).
	After string `json:"a,omitempty"`
	// Offset and Max page a log: bytes from the start of what was ever logged; a
	// negative Offset counts from the end in lines.
	Offset int64 `json:"o,omitempty"`
	Max    int   `json:"m,omitempty"`
	// WaitMs lets a log answer be held until there is something new, and that to AskPlan
	// until workers have measured what must be near.
	WaitMs int `json:"t,omitempty"`
	// SinceMs leaves out what a log had that long ago, in milliseconds; see LogAsk.
	SinceMs int64 `json:"s,omitempty"`
	// Times, Previous and Former of a log; see LogAsk. Incarnation is the one whose log a
	// worker is asked for that does not have the instance any more, 0 otherwise.
	Times       bool `json:"ti,omitempty"`
	Previous    bool `json:"pr,omitempty"`
	Former      int  `json:"fo,omitempty"`
	Incarnation int  `json:"in,omitempty"`
	// Exec is a step of a session.
	Exec *ExecAsk `json:"x,omitempty"`
	// Measure is what AskMeasure asks about.
	Measure *MeasureAsk `json:"me,omitempty"`
	// Plan is what AskPlan asks about.
	Plan *PlanAsk `json:"pl,omitempty"`
	// Volume that AskRemoveVolume is about.
	Volume *VolumeRef `json:"v,omitempty"`
	// Upgrade is what AskUpgrade is about.
	Upgrade *UpgradeAsk `json:"up,omitempty"`
	// Cordon is what AskCordon and AskUncordon are about.
	Cordon *CordonAsk `json:"c,omitempty"`
}

// What a root passes on to the cluster of a worker, where that shares its details.
const (
	AskCordon   = "cordon"
	AskUncordon = "uncordon"
	AskDrain    = "drain" // how far it is
)

// CordonAsk takes a worker out of use, or back.
type CordonAsk struct {
	// By is who asked the root.
	By string `json:"by,omitempty"`
	CordonRequest
}

// AskMetrics asks for the figures of Worker, as they are now.
const AskMetrics = "metrics"

// MetricsPage is the data of an Answer to AskMetrics.
type MetricsPage struct {
	V int `json:"v"`
	// Text in the format of Prometheus, packed with gzip.
	Text []byte `json:"t"`
}

// Answer to an Ask.
type Answer struct {
	V int `json:"v"`
	// Error in words; Problem is the same with its code, where it has one.
	Error   string          `json:"e,omitempty"`
	Problem *Problem        `json:"p,omitempty"`
	Data    json.RawMessage `json:"d,omitempty"`
}

// LogAsk is what is asked of a log.
type LogAsk struct {
	// Offset in bytes from the start of what was ever logged; negative: lines from
	// its end.
	Offset int64
	// Max bytes; 0 is left to who answers.
	Max int
	// Wait this long for something new.
	Wait time.Duration
	// Since leaves out what was written longer ago than that, if it is not 0. It may be a
	// little more: 10 ms, or all of a log that an older version of the worker has written.
	Since time.Duration
	// Times asks for LogChunk.Times.
	Times bool
	// Previous asks for what the run before the present one has written; where the instance
	// does not run now, for what its last run has.
	Previous bool
	// Former asks for the log on a worker where the instance was before: 1 is the last one
	// before the present, 2 the one before that. LogChunk.Former repeats it; an older
	// cluster does not know of it, and answers with the present log.
	Former int
	// Incarnation whose log is asked for; see Ask.
	Incarnation int
}

// Logs is the question for the log of an instance.
func (q LogAsk) Logs(id InstanceID) Ask {
	return Ask{
		What: "logs", Instance: id, Offset: q.Offset, Max: q.Max, WaitMs: int(q.Wait / time.Millisecond), SinceMs: q.Since.Milliseconds(),
		Times: q.Times, Previous: q.Previous, Former: q.Former, Incarnation: q.Incarnation,
	}
}

// Log is what a question asks of a log.
func (q Ask) Log() LogAsk {
	return LogAsk{
		Offset: q.Offset, Max: q.Max, Wait: time.Duration(q.WaitMs) * time.Millisecond, Since: time.Duration(q.SinceMs) * time.Millisecond,
		Times: q.Times, Previous: q.Previous, Former: q.Former, Incarnation: q.Incarnation,
	}
}

// LogChunk is the data of an Answer to "logs".
type LogChunk struct {
	Data []byte `json:"data"`
	// Next is the Offset to continue from. Lost counts bytes between the Offset
	// asked for and the first that rotation has kept.
	Next int64 `json:"next"`
	Lost int64 `json:"lost,omitempty"`
	// End is where the log ended then, 0 where an older worker does not say it.
	End int64 `json:"end,omitempty"`
	// Times are when Data was written, where that was asked for and is known: each holds
	// from its Offset on up to the next.
	Times []LogTime `json:"times,omitempty"`
	// Former is that of the question: the log is of a worker where the instance was. Worker
	// is its name, which only a cluster says.
	Former int    `json:"former,omitempty"`
	Worker string `json:"worker,omitempty"`
}

// LogTime says when the bytes of a log from Offset on were written.
type LogTime struct {
	Offset int64     `json:"offset"`
	At     time.Time `json:"at"`
}
