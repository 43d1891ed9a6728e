package data

// Worker is another worker and where its data port is, host:port.
type Worker struct{ Cluster, Name, Address string }
