// Package experiments runs figures and tables of papers on Verge, in the lab, and
// compares: what the paper says, what is expected by computation, what was
// measured, and how wrong the emulator was meanwhile.
//
// Each experiment is one file, has a name, a seed and a quick form, and returns
// rows. A row may be a requirement: then a run in which it falls short fails.
package experiments
