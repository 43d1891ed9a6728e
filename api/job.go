package api

// Job says that a service runs to completion: each of its instances has an index from 0
// to Completions - 1, and is done when its program has ended with exit code 0. One index
// is run at least once: one that ended otherwise, or of which nobody knows how it ended,
// is run again.
type Job struct {
	// Completions are the indexes that are to complete (default 1), Parallelism how many
	// of them run at a time (default 1).
	Completions int `json:"completions,omitempty"`
	Parallelism int `json:"parallelism,omitempty"`
	// Retries of each index, before it has failed for good. Nil: 6.
	Retries *int `json:"retries,omitempty"`
	// Deadline of the whole job from its beginning; 0: none.
	Deadline Duration `json:"deadline,omitempty"`
	// Keep is how long what has ended can be looked at on its worker: its logs. Nil: 24h.
	Keep *Duration `json:"keep,omitempty"`
	// Suspend starts nothing more; what runs goes on.
	Suspend bool `json:"suspend,omitempty"`
}

// Defaults of a job where the descriptor is silent; that of retries is the one of
// Kubernetes.
const (
	DefaultRetries          = 6
	DefaultKeep    Duration = 24 * 3600e9
)
