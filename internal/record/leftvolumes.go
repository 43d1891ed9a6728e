package record

import (
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// LeftVolumes are named volumes of an instance on a worker where they do not count any
// more: the instance has others elsewhere, or begins with empty ones. It is not placed
// on that worker before somebody has removed them, so that nobody takes up old data for
// the present.
type LeftVolumes struct {
	V         int             `json:"v"`
	Worker    string          `json:"worker"`
	Namespace string          `json:"namespace"`
	Instance  wire.InstanceID `json:"instance"`
	Volumes   []string        `json:"volumes"`
	// Why they do not count any more, in words.
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
	By    string    `json:"by,omitempty"`
}

// Key is the worker and the instance.
func (l *LeftVolumes) Key() string { return l.Worker + "." + l.Instance }
