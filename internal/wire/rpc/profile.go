package rpc

import (
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// A profile says how many requests per second the instances of a service on each worker answer
// under full load. Each worker loads its own, with no network between. The policies weighted
// and billiard use it. It is made in steps like a session, see ExecAsk: if the client stops
// asking, it ends and nothing is stored.

// ExecDoProfile is a step of profiling a service: ExecAsk.Profile says which.
const ExecDoProfile = "profile"

// Steps of profiling: what ProfileAsk.Do says.
const (
	// ProfileStart begins, ProfileLook returns the progress, ProfileKeep stores what was
	// measured and ProfileEnd aborts.
	ProfileStart = "start"
	ProfileLook  = "look"
	ProfileKeep  = "keep"
	ProfileEnd   = "end"
	// ProfileShow returns what is stored, ProfileForget removes it.
	ProfileShow   = "show"
	ProfileForget = "forget"
)

// Bounds of a profile.
const (
	MaxProfileFor         = 10 * time.Minute
	MaxProfileWhole       = time.Hour // with workers one after the other
	MaxProfileConcurrency = 1000      // requests at a time on one worker
	MaxProfileBody        = 64 << 10
	// ProfileIdle is how long it goes on without a question.
	ProfileIdle = 15 * time.Second
)

// ProfileAsk is one step of profiling a service.
type ProfileAsk struct {
	Do      string `json:"do"`
	App     string `json:"app"`
	Service string `json:"service"`
	// Key names the run; the client chooses it at random.
	Key string `json:"key,omitempty"`
	// Load of "start", and which of the worker's instances.
	Load      *ProfileLoad      `json:"load,omitempty"`
	Instances []wire.InstanceID `json:"instances,omitempty"`
}

// ProfileLoad is the load on the instances.
type ProfileLoad struct {
	// Key names the run: the same key again is the same run.
	Key    string `json:"key,omitempty" minLength:"8" maxLength:"64" doc:"chosen at random; it names the run"`
	Port   string `json:"port,omitempty" maxLength:"63" doc:"name of the port, whose protocol is http or grpc; the first that is, if left out"`
	Path   string `json:"path,omitempty" maxLength:"4096" doc:"/ if left out; with grpc /package.Service/Method"`
	Method string `json:"method,omitempty" maxLength:"16" pattern:"^[A-Z]*$" doc:"GET if left out; with grpc POST"`
	Body   []byte `json:"data,omitempty" maxLength:"90000" doc:"the body, at most 64 KiB before the encoding; with grpc the message"`
	// Type of the body.
	Type string `json:"type,omitempty" maxLength:"200" doc:"content type of the body"`
	// For is how long each worker is kept busy; 0: 60 s.
	For api.Duration `json:"for,omitempty" doc:"how long each worker is kept busy, 1s to 10m; 60s if left out"`
	// Concurrency is how many requests each instance has at a time; 0: as the service says.
	Concurrency int `json:"concurrency,omitempty" minimum:"0" maximum:"1000" doc:"requests that each instance has at a time; as many as the service says, if left out"`
	// OneByOne: one worker after the other, even on different machines.
	OneByOne bool `json:"one_by_one,omitempty" doc:"one worker after the other, also where they are on different machines"`
}

// States of profiling, and of a worker in it.
const (
	ProfileWaits  = "waiting"
	ProfileRuns   = "running"
	ProfileDone   = "done"
	ProfileFailed = "failed"
)

// ProfileReport is the progress of profiling, or what is stored.
type ProfileReport struct {
	V       int    `json:"v"`
	App     string `json:"app"`
	Service string `json:"service"`
	// State is ProfileRuns, ProfileDone or ProfileFailed (for the reason in Why); "" for what
	// is stored.
	State string `json:"state,omitempty" enum:"waiting,running,done,failed"`
	Why   string `json:"why,omitempty"`
	// Took is how long it has taken so far, Whole how long it will take in all.
	Took  api.Duration `json:"took,omitempty"`
	Whole api.Duration `json:"whole,omitempty"`
	// Stored: it is in effect from now on.
	Stored bool          `json:"kept,omitempty"`
	Nodes  []ProfileNode `json:"nodes"`
}

// ProfileNode is a worker in a profile.
type ProfileNode struct {
	Cluster   string `json:"cluster"`
	Worker    string `json:"worker,omitempty"`
	Instances int    `json:"instances,omitempty"`
	State     string `json:"state,omitempty" enum:"waiting,running,done,failed"`
	// Requests answered in Span, and those not answered or with an error.
	Requests int          `json:"requests,omitempty"`
	Errors   int          `json:"errors,omitempty"`
	Span     api.Duration `json:"span,omitempty"`
	// Rate is Requests/Span: the requests per second of the instances there together. With From
	// other than WeightProfile it is an estimate.
	Rate float64 `json:"rate,omitempty"`
	// Mean, P50 and P99 of the duration of a request.
	Mean api.Duration `json:"mean,omitempty"`
	P50  api.Duration `json:"p50,omitempty"`
	P99  api.Duration `json:"p99,omitempty"`
	// Concurrency is how many requests were in progress at a time.
	Concurrency int `json:"concurrency,omitempty"`
	// Weight of each instance there: (W/M)/max(W)·256.
	Weight float64 `json:"weight,omitempty"`
	// From says where Rate comes from: WeightProfile, WeightKind or WeightCPU.
	From string `json:"from,omitempty"`
	// At is when it was measured, By who asked for it.
	At time.Time `json:"at,omitzero"`
	By string    `json:"by,omitempty"`
	// Old: another program runs now.
	Old bool `json:"old,omitempty"`
	// Problem says why it was not measured, or what went wrong.
	Problem string `json:"problem,omitempty"`
}

// Where the weight of an instance comes from.
const (
	WeightProfile = "profile"     // its worker was measured
	WeightOld     = "old profile" // the same, with another program than runs now
	WeightKind    = "same kind"   // workers of the same kind were
	WeightCPU     = "processors"  // others were; scaled by the number of processors
)
