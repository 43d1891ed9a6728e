// Package draft holds what the formats share when they make services of Verge: names that are valid
// and unique, ports and who publishes them, files and volumes that do not overlap, capabilities,
// limits that Verge requires, and the text of the finished descriptor.
//
// A Draft remembers which part of a source each service came from, so that an error of descriptor.Parse
// is reported at the line of the source.
package draft
