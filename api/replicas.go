package api

import (
	"encoding/json"
	"fmt"
)

// IsZero is always false: no replicas (0) must be written out, because a
// descriptor that is silent about them means one.
func (r Replicas) IsZero() bool { return false }

// Elastic says that how many run is decided by what is asked of them.
func (r Replicas) Elastic() bool { return r.Max > r.Min }

// ToZero says that none runs while nobody asks.
func (r Replicas) ToZero() bool { return r.Min == 0 && r.Max > 0 }

// MarshalJSON writes 3, or {"min":1,"max":3} where they differ.
func (r Replicas) MarshalJSON() ([]byte, error) {
	if r.Min == r.Max {
		return json.Marshal(r.Min)
	}
	type pair Replicas
	return json.Marshal(pair(r))
}

// UnmarshalJSON reads what MarshalJSON writes. It is for messages between
// tiers; descriptors go through Parse.
func (r *Replicas) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] != '{' {
		var n int
		if err := json.Unmarshal(b, &n); err != nil {
			return fmt.Errorf("replicas: %w", err)
		}
		*r = Replicas{n, n}
		return nil
	}
	type pair Replicas
	var p pair
	if err := json.Unmarshal(b, &p); err != nil {
		return fmt.Errorf("replicas: %w", err)
	}
	*r = Replicas(p)
	return nil
}
