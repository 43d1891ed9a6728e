package overlay

// Stats are the figures of a Network since it was opened. They are read when
// somebody asks.
type Stats struct {
	// Dropped are packets that were refused, by reason (see package rules).
	Dropped map[string]uint64
	// First are packets to service addresses that had no rule yet and got one,
	// Nobody those to addresses of no service.
	First, Nobody uint64
	// Names are what was asked of the name server.
	Names Names
	// Instances that are connected, Services that there are rules for, and the other
	// workers by how they are reached (wire.PathDirect, …).
	Instances, Services int
	Peers               map[string]int
}

// Names are questions to a worker's name server.
type Names struct {
	Asked uint64
	// Unanswered were over the bound of who asked; Failed are those of them that
	// the machine's own name servers did not answer.
	Unanswered, Failed uint64
	// Answers by their code ("NOERROR", "NXDOMAIN", …).
	Answers map[string]uint64
}
