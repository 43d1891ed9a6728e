package wire

import "time"

// LeftVolumes are named volumes of an instance on a worker where they do not count any
// more: the instance has others elsewhere, or begins with empty ones. It is not placed
// on that worker before somebody has removed them, so that nobody takes up old data for
// the present.
type LeftVolumes struct {
	V         int        `json:"v"`
	Worker    string     `json:"worker"`
	Namespace string     `json:"namespace"`
	Instance  InstanceID `json:"instance"`
	Volumes   []string   `json:"volumes"`
	// Why they do not count any more, in words.
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
	By    string    `json:"by,omitempty"`
}

// Key is the worker and the instance.
func (l *LeftVolumes) Key() string { return l.Worker + "." + l.Instance }

// VolumeForgetRequest asks for an instance to go on without its volumes.
type VolumeForgetRequest struct {
	Confirm string `json:"confirm" maxLength:"200" doc:"the id of the instance, to say that it is meant"`
}
