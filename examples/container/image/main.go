// Command image writes an archive with an image of this machine's busybox, called
// site:1.
package main

import (
	"fmt"
	"os"

	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: image FILE")
	}
	image, err := containertest.Build(containertest.Config{Cmd: []string{"/bin/sh"}})
	if err != nil {
		return err
	}
	return containertest.Save(os.Args[1], "site:1", image)
}
