// Package experiment is what experiments are made of: a name, forms with real requests and in
// virtual time, rows with what a paper says and what was measured, and how those become files
// and pictures. The experiments themselves are below internal/lab/experiments.
package experiment
