// Package mu has the experiments of the Mu paper: routing, scaling and placing of functions.
package mu
