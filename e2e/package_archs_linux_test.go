package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPackagesOfEachArchitecture makes packages for two architectures of a program that is
// quickly built for both, and looks whether each has what is for it. TestPackages has that
// of this machine with all of Verge in it.
func TestPackagesOfEachArchitecture(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	t.Parallel()
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	archs := []string{"amd64", "arm64"}
	in, out := t.TempDir(), t.TempDir()
	small := filepath.Join(in, "main.go")
	put(t, small, "package main\n\nimport \"golang.org/x/time/rate\"\n\nfunc main() { println(rate.NewLimiter(1, 1).Burst()) }\n")
	for _, arch := range archs {
		for _, program := range []string{"verge", "verge-lab"} {
			command(t, []string{"GOARCH=" + arch, "GOOS=linux", "CGO_ENABLED=0"}, "go", "build", "-o", filepath.Join(in, arch, program), small)
		}
	}
	for _, name := range []string{"completion.bash", "completion.zsh", "completion.fish", "man1/verge.1.gz", "lab-man1/verge-lab.1.gz"} {
		put(t, filepath.Join(in, "share", name), name)
	}
	makePackager(t)
	command(t, nil, "bin/packager", "-version", "v1.2.3", "-time", "1700000000", "-compress", "gzip", "-in", in, "-out", out, archs[0], archs[1])

	for _, arch := range archs {
		deb := unpacked(t, one(t, out, "verge_*_"+arch+".deb"))
		control := archived(t, gunzip(t, deb["control.tar.gz"]))
		if !strings.Contains(control["control"], "\nArchitecture: "+arch+"\n") || !strings.Contains(control["control"], "\nVersion: 1.2.3\n") {
			t.Errorf("the package of %s says\n%s", arch, control["control"])
		}
		program := archived(t, gunzip(t, deb["data.tar.gz"]))["usr/bin/verge"]
		f, err := elf.NewFile(strings.NewReader(program))
		if err != nil || f.Machine != machines[arch] {
			t.Errorf("the program in the package of %s: %+v, %v", arch, f, err)
		}
		var parts struct {
			Metadata struct {
				Properties []struct{ Name, Value string }
			}
			Components []struct{ Purl string }
		}
		if err := json.Unmarshal(must[[]byte](t)(os.ReadFile(one(t, out, "verge_*_"+arch+".cdx.json"))), &parts); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(parts.Metadata.Properties); got != "[{GOARCH "+arch+"}]" {
			t.Errorf("the list of parts of %s has %s", arch, got)
		}
		if got := fmt.Sprint(parts.Components); !strings.Contains(got, "pkg:golang/golang.org/x/time@v") {
			t.Errorf("the parts of %s are %s", arch, got)
		}
		imageHas(t, one(t, out, "*_linux.oci.tar"), arch, program)
	}
	for _, arch := range archs {
		deb := unpacked(t, one(t, out, "verge-lab_*_"+arch+".deb"))
		program := archived(t, gunzip(t, deb["data.tar.gz"]))["usr/bin/verge-lab"]
		if f, err := elf.NewFile(strings.NewReader(program)); err != nil || f.Machine != machines[arch] {
			t.Errorf("the program in the package of the lab for %s: %+v, %v", arch, f, err)
		}
	}
	check := command(t, []string{"LC_ALL=C"}, "sh", "-c", "cd "+out+" && sha256sum -c SHA256SUMS")
	if n := strings.Count(check, ": OK\n"); n != 9 {
		t.Errorf("%d of 9 checksums are right:\n%s", n, check)
	}
}

// packagerTurn lets one test at a time make the packager, which is one file.
var packagerTurn sync.Mutex

func makePackager(t *testing.T) {
	t.Helper()
	packagerTurn.Lock()
	defer packagerTurn.Unlock()
	command(t, nil, "make", "--no-print-directory", "bin/packager")
}

// imageHas looks whether an image has a program for an architecture, in the manifest that
// its index names for that.
func imageHas(t *testing.T, file, arch, program string) {
	t.Helper()
	type descriptor struct {
		Digest   string
		Platform struct{ OS, Architecture string }
	}
	all := archived(t, must[[]byte](t)(os.ReadFile(file)))
	read := func(name string, v any) {
		t.Helper()
		if err := json.Unmarshal([]byte(all[name]), v); err != nil {
			t.Fatalf("%s of the image: %v", name, err)
		}
	}
	blob := func(digest string) string { return "blobs/" + strings.ReplaceAll(digest, ":", "/") }
	var top, index struct{ Manifests []descriptor }
	read("index.json", &top)
	read(blob(top.Manifests[0].Digest), &index)
	if len(index.Manifests) != 2 {
		t.Fatalf("the image is for %+v", index.Manifests)
	}
	for _, m := range index.Manifests {
		if m.Platform.OS != "linux" || m.Platform.Architecture != arch {
			continue
		}
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		read(blob(m.Digest), &manifest)
		var config struct{ OS, Architecture string }
		read(blob(manifest.Config.Digest), &config)
		if config.OS != "linux" || config.Architecture != arch {
			t.Errorf("what the index says is for %s says that it is for %+v", arch, config)
		}
		for _, l := range manifest.Layers {
			if archived(t, gunzip(t, []byte(all[blob(l.Digest)])))["usr/bin/verge"] == program {
				return
			}
		}
		t.Errorf("the image for %s has another program than its package", arch)
		return
	}
	t.Errorf("the image has nothing for %s: %+v", arch, index.Manifests)
}

// put writes a file and makes its folder.
func put(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// command runs one in the root of the repository that must succeed, and returns what it
// prints.
func command(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = ".."
	for _, v := range os.Environ() { // of the make that runs the tests
		if !strings.HasPrefix(v, "MAKE") && !strings.HasPrefix(v, "MFLAGS") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// unpacked are the members of an ar archive, as a Debian package is.
func unpacked(t *testing.T, file string) map[string][]byte {
	t.Helper()
	b := must[[]byte](t)(os.ReadFile(file))
	rest, ok := bytes.CutPrefix(b, []byte("!<arch>\n"))
	if !ok {
		t.Fatalf("%s is no archive: %.20q", file, b)
	}
	out := map[string][]byte{}
	const head = 60 // name of 16, times and owners, size of 10 from 48 on
	for len(rest) >= head {
		var size int
		if _, err := fmt.Sscan(string(rest[48:58]), &size); err != nil || head+size > len(rest) {
			t.Fatalf("%s: %q, %v", file, rest[:head], err)
		}
		out[strings.TrimRight(string(rest[:16]), " /")] = rest[head : head+size]
		rest = rest[min(head+size+size%2, len(rest)):]
	}
	return out
}

func gunzip(t *testing.T, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return must[[]byte](t)(io.ReadAll(z))
}

// archived are the files of a tar archive by their names.
func archived(t *testing.T, b []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(h.Name, "./")] = string(must[[]byte](t)(io.ReadAll(r)))
	}
}
