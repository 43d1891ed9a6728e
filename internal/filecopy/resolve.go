package filecopy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// maxLinks are followed on the way to a file, as the kernel does.
const maxLinks = 40

// Resolve follows the links on the way to name as if root were the root of the file
// system, as it is to a container: an absolute link begins there, and ".." ends there.
// What is not there is returned as it would be made.
func Resolve(root *os.Root, name string) (string, error) {
	todo := strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/")
	at, links := ".", 0
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		step := path.Join(at, next)
		info, err := root.Lstat(step)
		if errors.Is(err, fs.ErrNotExist) {
			return path.Join(append([]string{step}, todo...)...), nil
		}
		if err != nil {
			return "", plain(step, err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = step
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: there are more than %d links on the way", name, maxLinks)
		}
		to, err := root.Readlink(step)
		if err != nil {
			return "", plain(step, err)
		}
		if path.IsAbs(to) {
			at = "."
		}
		todo = append(strings.Split(to, "/"), todo...)
	}
	return at, nil
}
