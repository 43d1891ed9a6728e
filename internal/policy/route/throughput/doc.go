// Package throughput estimates what nodes serve of a service from the profiles of some of them: as
// measured, else as nodes of the same kind, else by their processors. Estimates are positive and
// finite, or 0 for unknown, whatever the profiles say.
package throughput
