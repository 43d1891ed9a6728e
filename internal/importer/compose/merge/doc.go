// Package merge puts the files that a compose file includes or extends into one tree, as docker
// compose does.
//
// compose-go could do it on its own, but it opens every file by itself, also outside the project's
// folder, and returns a model without files and lines. Here files are opened through
// source.File.Open, below the folder of the first file, with bounds on their number, size, depth
// and values, and each node keeps the file and line that notes refer to. Merging a service into the
// one that extends it is left to compose-go.
package merge
