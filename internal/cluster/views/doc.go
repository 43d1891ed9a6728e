// Package views is what people are shown of a cluster: instances with the reasons of their
// placement, workers, usage, logs of former places.
package views
