// Command image writes an archive with an image called site:1, which holds the
// static busybox of this machine. It shows all that an image is: a layer of files
// and a few words about how to run them.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write() error {
	if len(os.Args) != 2 {
		return errors.New("usage: image FILE")
	}
	files, err := files()
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	about, err := image.ConfigFile()
	if err != nil {
		return err
	}
	about.OS, about.Architecture = "linux", runtime.GOARCH
	about.Config = v1.Config{Cmd: []string{"/bin/sh"}}
	if image, err = mutate.ConfigFile(image, about); err != nil {
		return err
	}
	tag, err := name.NewTag("site:1")
	if err != nil {
		return err
	}
	return tarball.WriteToFile(os.Args[1], tag, image)
}

// files of the image: busybox, and the names that it answers to.
func files() ([]byte, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, fmt.Errorf("%w; apt-get install busybox-static", err)
	}
	program, err := os.ReadFile(path) //nolint:gosec // it is what was asked for
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	for _, applet := range []string{"sh", "httpd", "ls", "cat", "ps", "ip", "nslookup"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox", Mode: 0o777}); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
