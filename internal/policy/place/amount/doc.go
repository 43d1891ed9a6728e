// Package amount has the arithmetic of resources: amounts of each kind as a vector, sums that do
// not overflow, shares, whether a demand fits, and formatting.
//
// Clean, Sub, Fits and formatting count negative amounts as zero. The order of the kinds is that
// of filters and records.
package amount
