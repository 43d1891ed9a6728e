// Package modulestore keeps modules and their machine code on disk, by digest, each with a seal:
// the sizes and checksums of the files as they were written.
//
// Promise: a file that does not fit its seal is never loaded; it is removed.
package modulestore
