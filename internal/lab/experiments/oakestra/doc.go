// Package oakestra has the experiments of the Oakestra paper: deploying, control messages, idle and
// full machines, the service network, a video pipeline, and its two levels of scheduling.
package oakestra
