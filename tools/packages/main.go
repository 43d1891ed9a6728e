// Command packages makes of built programs what is installed elsewhere: for each architecture a
// Debian package and a list of what the program is made of, an image of all of them,
// and the checksums of these files. The same commit gives the same bytes.
//
//	packages -version V -time SECONDS [-compress gzip] -in DIR -out DIR ARCH…
//
// It runs in the root of the repository. The folder of -in has ARCH/verge, and in share
// what tools/manpages writes. It is a module of its own, so that Verge does not depend on
// packagers.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A build is what packages are made of.
type build struct {
	version  string // as verge version says it
	at       time.Time
	in, out  string
	compress string // of Debian packages
}

func main() {
	var b build
	at := flag.Int64("time", 0, "when this version was made, in seconds since 1970: the time of all files")
	flag.StringVar(&b.version, "version", "", "version, as v1.2.3")
	flag.StringVar(&b.in, "in", "", "folder with ARCH/verge, ARCH/verge-lab and share")
	flag.StringVar(&b.out, "out", "", "folder for the packages")
	flag.StringVar(&b.compress, "compress", "xz",
		"how Debian packages are compressed: xz (the smallest), gzip (in a tenth of the time) or none")
	flag.Parse()
	b.at = time.Unix(*at, 0).UTC()
	if err := b.run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

func (b build) run(archs []string) error {
	if b.version == "" || b.in == "" || b.out == "" || len(archs) == 0 {
		return errors.New("-version, -in, -out and architectures are needed")
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	var made []string
	for _, arch := range archs {
		for _, program := range []string{verge, lab} {
			deb, err := b.debian(program, arch)
			if err != nil {
				return fmt.Errorf("Debian package of %s for %s: %w", program, arch, err)
			}
			parts, err := b.parts(program, arch)
			if err != nil {
				return fmt.Errorf("parts of %s for %s: %w", program, arch, err)
			}
			made = append(made, deb, parts)
		}
	}
	image, err := b.image(archs)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return b.sums(append(made, image))
}

// The programs, which have packages of their own.
const (
	verge = "verge"
	lab   = "verge-lab"
)

// binary is a program of an architecture.
func (b build) binary(program, arch string) string { return filepath.Join(b.in, arch, program) }

// file is the path of one of the files made, of what its name ends with.
func (b build) file(program, end string) string {
	return filepath.Join(b.out, program+"_"+strings.TrimPrefix(b.version, "v")+end)
}

// sums writes SHA256SUMS, which sha256sum -c reads.
func (b build) sums(files []string) error {
	var all strings.Builder
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		h := sha256.New()
		n, err := io.Copy(h, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		fmt.Fprintf(&all, "%s  %s\n", hex.EncodeToString(h.Sum(nil)), filepath.Base(file))
		fmt.Printf("%s (%.1f MB)\n", file, float64(n)/1e6)
	}
	sums := filepath.Join(b.out, "SHA256SUMS")
	fmt.Println(sums)
	return os.WriteFile(sums, []byte(all.String()), 0o644)
}
