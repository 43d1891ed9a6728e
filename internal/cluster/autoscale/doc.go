// Package autoscale decides how many instances a service has, of those that the root
// delegates to this cluster, by the demand that its workers report.
//
// Promises:
//
//  1. The count stays within the bounds of the descriptor and of what the root delegates.
//  2. A decision is a function of the demand, the time and the records; it survives a restart.
package autoscale
