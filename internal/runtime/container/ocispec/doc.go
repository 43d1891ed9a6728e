// Package ocispec sets in the specification of a container what it may do: capabilities,
// system calls, its root, /tmp and devices, as runtime.Security says.
//
// Promise: the list of system calls names those of other architectures only where the image
// has programs for them; runc needs longer for such a list than for all the rest of a start.
package ocispec
