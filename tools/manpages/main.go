// Command manpages writes what a package has besides the program, from the program's own
// commands: a page of the manual for each, and completions of three shells.
//
//	manpages -out DIR
//
// DIR gets man1/*.1.gz and completion.bash, completion.zsh, completion.fish.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	// cobra's own writer of manuals; only this program has it, not verge.
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/verge-edge/verge/internal/cli"
	"github.com/verge-edge/verge/internal/cli/labcmd"
)

func main() {
	out := flag.String("out", "", "folder to write to")
	version := flag.String("version", "", "version of the program")
	date := flag.Int64("time", 0, "date of the pages, in seconds since 1970")
	flag.Parse()
	if err := run(*out, *version, time.Unix(*date, 0).UTC()); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

func run(out, version string, date time.Time) error {
	if out == "" {
		return fmt.Errorf("-out DIR is missing")
	}
	pages := filepath.Join(out, "man1")
	if err := os.MkdirAll(pages, 0o755); err != nil {
		return err
	}
	lab := filepath.Join(out, "lab-man1") // of the package verge-lab
	if err := os.MkdirAll(lab, 0o755); err != nil {
		return err
	}
	for _, p := range []struct {
		dir   string
		roots []*cobra.Command
	}{{pages, []*cobra.Command{cli.Commands(cli.Options{Version: version})}}, {lab, labcmd.Commands()}} {
		for _, root := range p.roots {
			root.DisableAutoGenTag = true
			head := doc.GenManHeader{Section: "1", Source: "Verge " + version, Manual: "Verge", Date: &date}
			if err := doc.GenManTree(root, &head, p.dir); err != nil {
				return fmt.Errorf("write the manual: %w", err)
			}
		}
		// Of verge lab and verge sim the main program has but the names.
		for _, root := range labcmd.Commands() {
			if p.dir == pages {
				_ = os.Remove(filepath.Join(pages, strings.ReplaceAll(root.CommandPath(), " ", "-")+
					".1")) // there, or not
			}
		}
		if err := compress(p.dir); err != nil {
			return fmt.Errorf("compress the manual: %w", err)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		f, err := os.Create(filepath.Join(out, "completion."+shell))
		if err != nil {
			return err
		}
		code := cli.Main(context.Background(), []string{"completion", shell}, nil, f, os.Stderr,
			cli.Options{Version: version})
		if err := f.Close(); err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("completions of %s: exit code %d", shell, code)
		}
	}
	return nil
}

// compress compresses the files of a folder, the same bytes for the same file.
func compress(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		name := filepath.Join(dir, file.Name())
		if filepath.Ext(name) == ".gz" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(name+".gz", b.Bytes(), 0o644); err != nil {
			return err
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
