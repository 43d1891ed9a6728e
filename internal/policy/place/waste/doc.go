// Package waste scores how many free resources of a worker a placement makes useless. It is pure.
//
// BestFit looks at the worker alone: less left over is better, and accelerators left without cpu or
// memory, or these left without accelerators, count as lost. Usual looks at what instances usually
// request: the free resources of a worker are lost to those that do not fit there, and the best
// placement adds least to that (fragmentation gradient, as in Weng et al., "Beware of
// Fragmentation", USENIX ATC 2023, which counts accelerators).
package waste
