package wire

import (
	"time"

	"github.com/verge-edge/verge/api"
)

// A profile says how many requests per second the instances of a service on each
// worker answer when they are kept busy: each worker keeps its own busy, with no
// network between. The policies weighted and billiard share by it. It is made in steps,
// as a session is, see ExecAsk: whoever asks no more ends it, and nothing is kept.

// ExecDoProfile is a step of profiling a service: ExecAsk.Profile says which.
const ExecDoProfile = "profile"

// Steps of profiling: what ProfileAsk.Do says.
const (
	// ProfileStart begins, ProfileLook says how far it is, ProfileKeep stores what was
	// measured and ProfileEnd breaks off.
	ProfileStart = "start"
	ProfileLook  = "look"
	ProfileKeep  = "keep"
	ProfileEnd   = "end"
	// ProfileShow says what is stored, ProfileForget removes it.
	ProfileShow   = "show"
	ProfileForget = "forget"
)

// Bounds of a profile.
const (
	MaxProfileFor         = 10 * time.Minute
	MaxProfileWhole       = time.Hour // with workers that go one after the other
	MaxProfileConcurrency = 1000      // requests at a time on one worker
	MaxProfileBody        = 64 << 10
	// ProfileIdle is how long nobody may ask before it ends by itself.
	ProfileIdle = 15 * time.Second
)

// ProfileAsk is one step of profiling a service.
type ProfileAsk struct {
	Do      string `json:"do"`
	App     string `json:"app"`
	Service string `json:"service"`
	// Key names the run; who starts it chooses it at random.
	Key string `json:"key,omitempty"`
	// Load of "start", and which instances of the worker that is asked.
	Load      *ProfileLoad `json:"load,omitempty"`
	Instances []InstanceID `json:"instances,omitempty"`
}

// ProfileLoad is what instances are kept busy with.
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
	// Concurrency is how many requests each instance has at a time; 0: as many as the
	// service says that it works on at a time.
	Concurrency int `json:"concurrency,omitempty" minimum:"0" maximum:"1000" doc:"requests that each instance has at a time; as many as the service says, if left out"`
	// OneByOne: one worker after the other, also where they are different machines.
	OneByOne bool `json:"one_by_one,omitempty" doc:"one worker after the other, also where they are on different machines"`
}

// States of profiling, and of a worker in it.
const (
	ProfileWaits  = "waiting"
	ProfileRuns   = "running"
	ProfileDone   = "done"
	ProfileFailed = "failed"
)

// ProfileReport says how far profiling is, or what is stored.
type ProfileReport struct {
	V       int    `json:"v"`
	App     string `json:"app"`
	Service string `json:"service"`
	// State is ProfileRuns, ProfileDone or ProfileFailed (then Why says why); "" of
	// what is stored.
	State string `json:"state,omitempty" enum:"waiting,running,done,failed"`
	Why   string `json:"why,omitempty"`
	// Took is how long it has taken so far, Whole how long it will.
	Took  api.Duration `json:"took,omitempty"`
	Whole api.Duration `json:"whole,omitempty"`
	// Stored: it counts from now on.
	Stored bool          `json:"kept,omitempty"`
	Nodes  []ProfileNode `json:"nodes"`
}

// ProfileNode is a worker in a profile.
type ProfileNode struct {
	Cluster   string `json:"cluster"`
	Worker    string `json:"worker,omitempty"`
	Instances int    `json:"instances,omitempty"`
	State     string `json:"state,omitempty" enum:"waiting,running,done,failed"`
	// Requests that were answered in Span, and those that were not, or with an error.
	Requests int          `json:"requests,omitempty"`
	Errors   int          `json:"errors,omitempty"`
	Span     api.Duration `json:"span,omitempty"`
	// Rate is Requests/Span: what the instances there do together, in requests per
	// second. With From other than WeightProfile it is estimated.
	Rate float64 `json:"rate,omitempty"`
	// Mean, P50 and P99 of the time of a request.
	Mean api.Duration `json:"mean,omitempty"`
	P50  api.Duration `json:"p50,omitempty"`
	P99  api.Duration `json:"p99,omitempty"`
	// Concurrency is how many requests were there at a time.
	Concurrency int `json:"concurrency,omitempty"`
	// Weight of each instance there: (W/M)/max(W)·256.
	Weight float64 `json:"weight,omitempty"`
	// From says where Rate comes from: WeightProfile, WeightKind or WeightCPU.
	From string `json:"from,omitempty"`
	// At is when it was measured, By who asked for it.
	At time.Time `json:"at,omitzero"`
	By string    `json:"by,omitempty"`
	// Old: another program runs by now.
	Old bool `json:"old,omitempty"`
	// Problem says why it was not measured, or what went wrong.
	Problem string `json:"problem,omitempty"`
}

// Where the weight of an instance comes from.
const (
	WeightProfile = "profile"     // its worker was measured
	WeightOld     = "old profile" // the same, of another program than runs now
	WeightKind    = "same kind"   // workers of the same kind were
	WeightCPU     = "processors"  // others were, and it has so many more processors
)
