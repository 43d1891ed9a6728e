// Package bed is what several experiments run in: a site of root, cluster and workers, with the
// service network or without, a fleet of routers without orchestrators, and scenes that are played
// with real requests and in virtual time.
package bed
