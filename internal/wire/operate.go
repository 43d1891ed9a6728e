package wire

import (
	"time"

	"github.com/verge-edge/verge/api"
)

// What people do to what runs: records of it, questions and answers.

// Scaled notes that the number of replicas of a service was set by a command and
// not by a file, so that the next file that says something else can say so.
type Scaled struct {
	Replicas int       `json:"replicas"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`
}

// Cordon notes that somebody took a worker or a cluster out of use: it takes
// nothing new. With Drain, what runs there is moved away as well.
type Cordon struct {
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
	Why   string    `json:"why,omitempty"`
	Drain bool      `json:"drain,omitempty"`
}

// CordonRequest asks for a Cordon.
type CordonRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"200" doc:"why, for those who come across it"`
	Drain  bool   `json:"drain,omitempty" doc:"move what runs there away"`
}

// DrainView says how far a drain is.
type DrainView struct {
	// Cordon with Drain; nil: nobody drains it.
	Cordon *Cordon `json:"cordon,omitempty"`
	// Left are the instances that are still there, by id.
	Left []DrainItem `json:"left"`
	// Source says so, and AgeSeconds is how old the oldest report is that it is made
	// of; negative where nothing was heard.
	Source     string  `json:"source"`
	AgeSeconds float64 `json:"age_seconds"`
}

// DrainItem is an instance that is still where nothing is to be.
type DrainItem struct {
	Instance InstanceID `json:"instance"`
	// State: "moving" (another starts elsewhere), "ending" (another has taken over),
	// "waiting" (for its turn), "stays" (it cannot go anywhere now).
	State string `json:"state" enum:"moving,ending,waiting,stays"`
	To    string `json:"to,omitempty"` // worker or cluster that it moves to
	Why   string `json:"why,omitempty"`
}

// Restart is a mark: what was started before it was asked for is to be started
// again. Marks of a service are ordered by N, which grows and is never 0.
type Restart struct {
	N   uint64    `json:"n"`
	By  string    `json:"by,omitempty"`
	At  time.Time `json:"at,omitzero"`
	Why string    `json:"why,omitempty"`
}

// RestartRequest asks for a new run of an application, of one of its services, or
// of one instance.
type RestartRequest struct {
	Service string `json:"service,omitempty" maxLength:"63" doc:"only this service"`
	// Ordinal of the only instance of Service that is meant.
	Ordinal *int   `json:"ordinal,omitempty" minimum:"0" doc:"only the instance of the service with this ordinal"`
	Reason  string `json:"reason,omitempty" maxLength:"200" doc:"why, for the history"`
}

// RestartResult says what will be started again. It is given after the wish is
// durable.
type RestartResult struct {
	Name string `json:"name"` // of the application
	// N is the mark: an instance has been started again when its Restarted is at
	// least that.
	N         uint64       `json:"n"`
	Instances []InstanceID `json:"instances"`
}

// What is asked for of a job.
const (
	JobRunNow  = "run"
	JobStop    = "stop"
	JobSuspend = "suspend"
	JobResume  = "resume"
)

// JobRequest asks for something of a job.
type JobRequest struct {
	Action string `json:"action" enum:"run,stop,suspend,resume" doc:"run begins a run, stop ends the one that goes on, suspend and resume are about what begins later"`
	Reason string `json:"reason,omitempty" maxLength:"200" doc:"why, for the history"`
}

// JobResult says what becomes of a job. It is given after the wish is durable.
type JobResult struct {
	Name string `json:"name"` // application.service
	// N is the mark of a run or a stop: a run has begun when its Restarted is at least that.
	N uint64 `json:"n,omitempty"`
	// Revision of the application that suspends or resumes it.
	Revision uint64 `json:"revision,omitempty"`
	// Message says what is to be known besides.
	Message string `json:"message,omitempty"`
}

// ScaleRequest asks for another number of replicas of a service.
type ScaleRequest struct {
	Replicas int `json:"replicas" minimum:"0" maximum:"10000" doc:"how many instances are to run"`
}

// ScalesItself says why a service cannot be given a number of instances: the requests
// decide.
func ScalesItself(app, service string, r api.Replicas) *Problem {
	return Problemf(409, "scales-itself", "change replicas in its descriptor and apply it; verge explain scale "+app+"."+service+" says what is decided now",
		"the number of its instances follows its requests", "%s.%s runs between %d and %d of them", app, service, r.Min, r.Max)
}
