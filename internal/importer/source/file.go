package source

import (
	"path"
	"strings"
)

// File is one file.
type File struct {
	// Name by which notes call it; "stdin" is standard input.
	Name string
	Data []byte
	// Folder is the name of the one that it is in, "" where there is none: a compose
	// file without name is called so.
	Folder string
	// Open reads a file that the source refers to, by a path below its folder; nil, and
	// an error, are that it cannot be had.
	Open func(path string) ([]byte, error)
}

// Base is the name of its file, without folders.
func (s File) Base() string { return path.Base(strings.ReplaceAll(s.Name, `\`, "/")) }
