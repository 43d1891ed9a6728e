// Package proxymity has the experiments of the Proxy-mity paper: which replica answers a request,
// by the distances between cities.
package proxymity
