// Package kubernetes makes applications of manifests: one for each namespace, a service for each
// container of a workload.
//
// Import adds all objects first (add.go), since they refer to each other; then make.go goes
// over each namespace: workloads and containers, the names that Services give them,
// environment, probes, storage, security and placement of each container, and finally what
// publishes and scales them.
//
// It has 3,000 lines and is one thing: all of it fills one service from one pod template, and each
// part needs the objects beside it (a probe adds a port, a Service names a container, an Ingress
// needs both). What objects may say, and how they are read, is in manifest.
package kubernetes
