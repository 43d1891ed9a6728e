// Package experiments lists the experiments by their names, for verge lab and verge sim.
//
// They run figures and tables of papers on Verge and compare: what the paper says, what is
// expected by computation, what was measured, and how wrong the emulator was meanwhile. Those of
// a paper are a package: oakestra, proxymity, kubeedge, mu, study (the continuum study);
// promises has those of no paper. bed is what several of them run in.
//
// Each experiment is one file, has a name, a seed and a quick form, and returns rows. A row may
// be a requirement: then a run in which it falls short fails.
package experiments
