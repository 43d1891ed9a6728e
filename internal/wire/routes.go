package wire

// Paths between two workers.
const (
	PathDirect = "direct"
	PathRelay  = "relay"
	PathNone   = "none"
)
