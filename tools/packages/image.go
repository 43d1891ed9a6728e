package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	// go-containerregistry: images without a daemon, as in the tests of Verge.
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	// Mozilla's list of authorities: an image without a system has none of its own.
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody is the user of the image. Root and cluster need no rights; a worker in a
// container is started with another.
const nobody = 65532

// image writes an archive of an image, one for all architectures (OCI image layout).
func (b build) image(archs []string) (string, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range archs {
		img, err := b.imageOf(arch)
		if err != nil {
			return "", fmt.Errorf("%s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	dir, err := os.MkdirTemp(b.in, "image")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	store, err := layout.Write(dir, empty.Index)
	if err != nil {
		return "", err
	}
	name := "verge:" + tag(b.version)
	if err := store.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag(b.version),
		"io.containerd.image.name":          "docker.io/library/" + name,
	})); err != nil {
		return "", err
	}
	path := b.file(verge, "_linux.oci.tar")
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	return path, errors.Join(b.archive(f, dir), f.Close())
}

// tag is a version in the letters that tags of images have.
func tag(version string) string {
	return string(bytes.ReplaceAll([]byte(version), []byte("+"), []byte("-")))
}

// imageOf makes the image of one architecture: the program, authorities to trust, and
// folders to write to.
func (b build) imageOf(arch string) (v1.Image, error) {
	program, err := os.ReadFile(b.binary(verge, arch))
	if err != nil {
		return nil, err
	}
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	var base, own bytes.Buffer
	if err := b.tar(&base,
		entry{name: "etc/"}, entry{name: "etc/ssl/"}, entry{name: "etc/ssl/certs/"},
		entry{name: "etc/ssl/certs/ca-certificates.crt", data: roots.Bytes(), mode: 0o644},
		entry{name: "etc/passwd",
			data: fmt.Appendf(nil, "root:x:0:0:root:/root:/sbin/nologin\n"+
				"verge:x:%d:%d:verge:/var/lib/verge:/sbin/nologin\n", nobody, nobody), mode: 0o644},
		entry{name: "etc/group", data: fmt.Appendf(nil, "root:x:0:\nverge:x:%d:\n", nobody), mode: 0o644},
		entry{name: "tmp/", mode: 0o1777},
		entry{name: "var/"}, entry{name: "var/lib/"}, entry{name: "var/lib/verge/", mode: 0o700, owner: nobody},
		entry{name: "usr/"}, entry{name: "usr/bin/"},
	); err != nil {
		return nil, err
	}
	if err := b.tar(&own, entry{name: "usr/bin/verge", data: program, mode: 0o755}); err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, data := range []*bytes.Buffer{&base, &own} {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data.Bytes())), nil
		}, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		if img, err = mutate.Append(img,
			mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: b.at}}}); err != nil {
			return nil, err
		}
	}
	return mutate.ConfigFile(img, b.config(img, arch))
}

func (b build) config(img v1.Image, arch string) *v1.ConfigFile {
	made, err := img.ConfigFile()
	if err != nil {
		made = &v1.ConfigFile{}
	}
	c := made.DeepCopy()
	c.OS, c.Architecture, c.Created = "linux", arch, v1.Time{Time: b.at}
	c.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/verge"},
		Env: []string{"PATH=/usr/bin", "HOME=/var/lib/verge", "XDG_STATE_HOME=/var/lib",
			"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		User:       fmt.Sprint(nobody),
		WorkingDir: "/var/lib/verge",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "verge",
			"org.opencontainers.image.version":  b.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/verge-edge/verge",
		},
	}
	return c
}

// An entry of an archive; a folder if its name ends with a slash.
type entry struct {
	name  string
	data  []byte
	mode  int64 // 0 of a folder is 0755
	owner int
}

func (b build) tar(w io.Writer, entries ...entry) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), Uid: e.owner, Gid: e.owner,
			ModTime: b.at, Typeflag: tar.TypeReg}
		if e.data == nil {
			h.Typeflag = tar.TypeDir
			if h.Mode == 0 {
				h.Mode = 0o755
			}
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(e.data); err != nil {
			return err
		}
	}
	return t.Close()
}

// archive writes what is below dir, in the order of the names.
func (b build) archive(w io.Writer, dir string) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, ModTime: b.at.Truncate(time.Second),
			Typeflag: tar.TypeReg}
		if d.IsDir() {
			h.Name, h.Mode, h.Typeflag = h.Name+"/", 0o755, tar.TypeDir
			return t.WriteHeader(h)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h.Size = int64(len(data))
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err = t.Write(data)
		return err
	})
	return errors.Join(err, t.Close())
}
