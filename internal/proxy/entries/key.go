package entries

// Entry is a loopback address of a service's port on this worker.
type Entry struct {
	App, Service, Port string
	Addr               string // host:port
	// Problem says why nothing listens at Addr at the moment; "" if it does.
	Problem string
}
