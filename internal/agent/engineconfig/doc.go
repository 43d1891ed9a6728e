// Package engineconfig is the file with which an engine starts by itself, and in words how it
// differs from the settings of the agent (Outdated), which an engine takes on with its next
// start only.
package engineconfig
