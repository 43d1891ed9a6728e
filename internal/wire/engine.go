package wire

// Isolation is how a worker separates instances that are processes.
type Isolation struct {
	// Users: each instance has a separate user, and does not see the worker's directory, its
	// sockets, or other instances. False: all run as the worker's user, for the reason in Why.
	Users bool   `json:"users"`
	Why   string `json:"why,omitempty"`
	// Missing says which part of that the machine cannot provide, if Users is true.
	Missing string `json:"missing,omitempty"`
	// HostUsers are users of the machine that instances may run as, too.
	HostUsers []string `json:"host_users,omitempty"`
}
