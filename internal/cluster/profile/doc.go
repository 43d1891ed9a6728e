// Package profile is the requests per second that a service was measured to serve on the
// workers of this cluster, and what follows for workers that were not measured.
package profile
