package runtime

import "os"

// Housed is a Task that sees another file system than the machine's.
type Housed interface {
	// Files calls f with the root of the task's file system and the absolute working directory in
	// it, with the rights of the task's main process. ErrGone: the task has ended. Any other error
	// is f's, or says why f was not called.
	Files(f func(root *os.Root, dir string) error) error
}
