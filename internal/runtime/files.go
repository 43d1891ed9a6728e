package runtime

import "os"

// Housed is a Task that sees another file system than the machine's.
type Housed interface {
	// Files calls f with the root of what the task sees and its working directory
	// there, absolute. What f does to files it does with the rights of the task's main
	// process. ErrGone: the task has ended; else the error is f's, or says in words why
	// f was not called.
	Files(f func(root *os.Root, dir string) error) error
}
