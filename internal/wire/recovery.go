package wire

import "time"

// Recovered records that clusters had an application, or a part of it, that was not in the data
// directory from which a root recovers. Its descriptor is made from theirs, without comments.
type Recovered struct {
	From []string  `json:"from"`
	At   time.Time `json:"at"`
	// Services that clusters reported, with the revision of each.
	Services map[string]uint64 `json:"services,omitempty"`
}
