// Package study has the experiments of the study of functions in the continuum of edge, fog and
// cloud: where functions are, how they are called, and where their data is.
package study
