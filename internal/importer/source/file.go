package source

import (
	"path"
	"strings"
)

// File is one file.
type File struct {
	// Name in notes; "stdin" is standard input.
	Name string
	Data []byte
	// Folder is the name of its folder, "" if there is none: the name of a compose project
	// without one.
	Folder string
	// Open reads a file that the source refers to, by a path below its folder. If Open is nil
	// or fails, the file is not available.
	Open func(path string) ([]byte, error)
}

// Base is its file name, without folders.
func (s File) Base() string { return path.Base(strings.ReplaceAll(s.Name, `\`, "/")) }
