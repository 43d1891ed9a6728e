package place

// bid is a cluster that may take replicas.
type bid struct {
	id        string
	same      int
	expected  int     // replicas, at most the number wanted
	freeShare float64 // of the demand's dominant resource
	displaces bool    // instances of a lower priority would have to make room
	lacks     int     // objects that are not there
	entering  float64 // requests a second, where they count
	reach     reach
}

// ranked is what a record shows of a bid.
func (b *bid) ranked() Ranked {
	r := Ranked{ID: b.id, Score: float64(b.expected), Parts: map[string]float64{
		"expected": float64(b.expected), "same": float64(b.same), "free_share": b.freeShare,
	}}
	if b.reach.known {
		r.Parts["latency_ms"] = float64(b.reach.latency) / 1e6
	}
	return r
}
