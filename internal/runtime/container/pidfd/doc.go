// Package pidfd waits for and signals processes that are not children of this one, such as the
// main process of a container.
//
// Promise: if a pid is reused, the new process is neither waited for nor signalled (ErrReused).
package pidfd
