// Package programsig signs programs that workers become, and says whether one is signed by a
// key that this worker knows.
package programsig
