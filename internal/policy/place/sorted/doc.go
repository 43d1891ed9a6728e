// Package sorted gives the elements of a list in order and sorts only as many of them as are
// asked for: a decision looks at the best few of thousands.
package sorted
