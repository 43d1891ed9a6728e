package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	// nfpm: Debian packages without Debian's tools, the same bytes for the same input.
	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
)

// debian makes the Debian package of a program for an architecture, as the file in
// deploy/package says.
func (b build) debian(program, arch string) (string, error) {
	units, err := b.units()
	if err != nil {
		return "", err
	}
	if err := b.copyright(); err != nil {
		return "", err
	}
	values := map[string]string{
		"ARCH": arch, "VERSION": b.version, "BIN": b.binary(program, arch), "UNITS": units, "SHARE": b.share(),
	}
	config, err := nfpm.ParseFileWithEnvMapping(map[string]string{verge: "deploy/package/nfpm.yaml",
		lab: "deploy/package/nfpm-lab.yaml"}[program], func(name string) string { return values[name] })
	if err != nil {
		return "", err
	}
	info, err := config.Get("deb")
	if err != nil {
		return "", err
	}
	info.MTime = b.at
	info.Deb.Compression = b.compress
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return "", err
	}
	path := filepath.Join(b.out, deb.Default.ConventionalFileName(info))
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	return path, errors.Join(deb.Default.Package(info, f), f.Close())
}

func (b build) share() string { return filepath.Join(b.in, "share") }

// units writes the units of systemd for a program that is where packages have it, and
// returns their folder.
func (b build) units() (string, error) {
	dir := filepath.Join(b.in, "units")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	files, err := filepath.Glob("deploy/systemd/*.service")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		unit := strings.ReplaceAll(string(text), "/usr/local/bin/verge", "/usr/bin/verge")
		unit = strings.ReplaceAll(unit, "/etc/systemd/system/", "/usr/lib/systemd/system/")
		if !strings.Contains(unit, "ExecStart=/usr/bin/verge ") {
			return "", fmt.Errorf("%s does not start /usr/local/bin/verge", file)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(unit), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// copyright writes what Debian wants to be told of a package's licence.
func (b build) copyright() error {
	text := `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: verge
Source: https://github.com/verge-edge/verge

Files: *
Copyright: The Verge authors
License: Apache-2.0
 On Debian systems, the text of this licence is in /usr/share/common-licenses/Apache-2.0.
 What libraries the program contains is in its list of parts, verge_*.cdx.json.
`
	return os.WriteFile(filepath.Join(b.share(), "copyright"), []byte(text), 0o644)
}
