package rpc

import (
	"encoding/json"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Questions to a cluster or a worker; others are declared beside their answers.
const (
	AskLogs       = "logs"        // a LogChunk of Instance
	AskExplain    = "explain"     // the decisions about Instance, of a cluster
	AskEntries    = "entries"     // the EntryViews of Worker
	AskWorkers    = "workers"     // the WorkerViews of a cluster
	AskTop        = "top"         // a TopPage of a cluster, after Instance; the WorkerTop of a worker
	AskTopWorkers = "top-workers" // a TopPage of a cluster, after Worker
	AskExec       = "exec"        // a step of a session: ExecAnswer
)

// Ask is a question: What is one of the constants that begin with Ask.
type Ask struct {
	What     string `json:"w"`
	Instance string `json:"i,omitempty"`
	Worker   string `json:"n,omitempty"`
	// After is the key of the last share of the page before (AskHoldings).
	After string `json:"a,omitempty"`
	// Offset and Max page a log, in bytes from the start of all that was ever logged; a
	// negative Offset counts lines from the end.
	Offset int64 `json:"o,omitempty"`
	Max    int   `json:"m,omitempty"`
	// WaitMs lets the answer wait: a log's until there is something new, that to AskPlan until
	// workers have measured what must be near.
	WaitMs int `json:"t,omitempty"`
	// SinceMs leaves out what was logged longer ago, in milliseconds; see LogAsk.
	SinceMs int64 `json:"s,omitempty"`
	// Times, Previous and Former of a log; see LogAsk. Incarnation is the one whose log is
	// asked of a worker that no longer has the instance, 0 otherwise.
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
	Volume *wire.VolumeRef `json:"v,omitempty"`
	// Upgrade is what AskUpgrade is about.
	Upgrade *UpgradeAsk `json:"up,omitempty"`
	// Cordon is what AskCordon and AskUncordon are about.
	Cordon *CordonAsk `json:"c,omitempty"`
}

// Questions that a root passes on to a worker's cluster, if that shares its details.
const (
	AskCordon   = "cordon"
	AskUncordon = "uncordon"
	AskDrain    = "drain" // its progress
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
	Problem *wire.Problem   `json:"p,omitempty"`
	Data    json.RawMessage `json:"d,omitempty"`
}

// LogAsk is what is asked of a log.
type LogAsk struct {
	// Offset in bytes from the start of all that was ever logged; negative: lines from the end.
	Offset int64
	// Max bytes; 0: the answering side decides.
	Max int
	// Wait this long for something new.
	Wait time.Duration
	// Since leaves out what was written longer ago, if it is not 0. Up to 10 ms more may
	// remain, or all of a log that an older version of the worker wrote.
	Since time.Duration
	// Times asks for LogChunk.Times.
	Times bool
	// Previous asks for the log of the run before the current one or, if the instance does not
	// run, of its last run.
	Previous bool
	// Former asks for the log on a previous worker of the instance: 1 is the last one before
	// the current, 2 the one before that. LogChunk.Former repeats it; an older cluster does not
	// know it, and answers with the current log.
	Former int
	// Incarnation whose log is asked for; see Ask.
	Incarnation int
}

// Logs is the question for the log of an instance.
func (q LogAsk) Logs(id wire.InstanceID) Ask {
	return Ask{
		What: AskLogs, Instance: id, Offset: q.Offset, Max: q.Max, WaitMs: int(q.Wait / time.Millisecond), SinceMs: q.Since.Milliseconds(),
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
	// Next is the Offset to continue from. Lost counts the bytes between the requested Offset
	// and the first that rotation left.
	Next int64 `json:"next"`
	Lost int64 `json:"lost,omitempty"`
	// End is where the log ended then, 0 from older workers.
	End int64 `json:"end,omitempty"`
	// Times are when Data was written, if requested and known: each applies from its Offset up
	// to the next.
	Times []LogTime `json:"times,omitempty"`
	// Former is that of the question: the log is from a previous worker. Worker is its name,
	// which only a cluster sets.
	Former int    `json:"former,omitempty"`
	Worker string `json:"worker,omitempty"`
}

// LogTime says when the bytes of a log from Offset on were written.
type LogTime struct {
	Offset int64     `json:"offset"`
	At     time.Time `json:"at"`
}

// MaxHeartbeat is the longest time between two reports of a worker, and the default that a
// cluster asks for.
const MaxHeartbeat = 10 * time.Second

// Default ports of the HTTP interfaces, also for nodes that joined before they got one.
const (
	RootAPIPort    = "8470"
	ClusterAPIPort = "8473"
)
