package wire

import "time"

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

// ScaleRequest asks for another number of replicas of a service.
type ScaleRequest struct {
	Replicas int `json:"replicas" minimum:"0" maximum:"10000" doc:"how many instances are to run"`
}
