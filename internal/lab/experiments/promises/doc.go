// Package promises has experiments of no paper: what Verge promises of changes while requests come,
// of control under load, and of routing, scaling and placing in scenes that nothing was tuned on.
package promises
