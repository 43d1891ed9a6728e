package ctrd

// DefaultAddress is where containerd listens.
const DefaultAddress = "/run/containerd/containerd.sock"

// Namespace of containerd in which everything of Verge is.
const Namespace = "verge"

// Labels of what is made in containerd.
const (
	LabelEngine   = "verge.engine"   // whose it is
	LabelInstance = "verge.instance" // of the instance
)
