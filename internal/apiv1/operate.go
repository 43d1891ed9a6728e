package apiv1

import "github.com/verge-edge/verge/internal/wire"

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
	N         uint64            `json:"n"`
	Instances []wire.InstanceID `json:"instances"`
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
