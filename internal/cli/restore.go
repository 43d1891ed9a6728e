package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/wire"
)

type restoreFlags struct {
	dataDir, passphraseFile, identityFile string
	dryRun                                bool
}

func (a *app) restoreCommand() *cobra.Command {
	var f restoreFlags
	cmd := &cobra.Command{
		Use:   "restore FILE|- --data-dir DIR",
		Short: "Restore a root or cluster from a backup",
		Long: `Restore the data directory of a root or cluster from a backup.

The whole file is checked first. The directory must be empty or missing; afterwards it
is complete, or unchanged. Then start verge root or verge cluster with it. It asks
the tier below for its state before it sends it anything, so that nothing ends only
because the backup does not know it; verge recovery shows the progress.

Never run the original and the restored role at the same time.`,
		Example: "  verge restore root.backup --data-dir /var/lib/verge/root --passphrase-file pass\n" +
			"  verge restore root.backup --dry-run --passphrase-file pass",
		Args: oneArg("FILE or -"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (f.dataDir == "") != f.dryRun {
				return usageError(cmd, "give --data-dir DIR, or --dry-run to only check the file")
			}
			return a.restore(cmd.Context(), args[0], f)
		},
	}
	cmd.Flags().StringVar(&f.dataDir, "data-dir", "", "the directory to create")
	cmd.Flags().StringVar(&f.passphraseFile, "passphrase-file", "", "decrypt with the passphrase in this file")
	cmd.Flags().StringVar(&f.identityFile, "identity-file", "", "decrypt with the secret age keys in this file")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "check the file and write nothing")
	return cmd
}

// ofFile says which file a problem is about.
func ofFile(file string, err error) error {
	var p *wire.Problem
	if !errors.As(err, &p) {
		return fmt.Errorf("%s: %w", file, err)
	}
	named := *p
	named.Detail = file + ": " + p.Detail
	return &named
}

func (a *app) restore(ctx context.Context, file string, f restoreFlags) (err error) {
	var keys backup.Keys
	if f.passphraseFile != "" {
		if keys.Passphrase, err = a.passphrase(f.passphraseFile); err != nil {
			return err
		}
	}
	if f.identityFile != "" {
		const maxIdentities = 1 << 20
		b, err := atomicfile.ReadBounded(f.identityFile, maxIdentities)
		if err != nil {
			return &userError{what: "the age keys cannot be read", why: err.Error(),
				next: "give the file that age-keygen wrote"}
		}
		keys.Identities = string(b)
	}
	in := a.in
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return &userError{what: "the backup cannot be read", why: err.Error(),
				next: "give the path of a file from verge backup"}
		}
		defer func() { _ = opened.Close() }() // read only
		in = opened
	}
	r, sealed, err := backup.Unseal(bufio.NewReaderSize(in, 1<<20), keys)
	if err != nil {
		return ofFile(file, err)
	}
	contents := ""
	if !f.dryRun {
		// On the disk of the data directory, into which they are moved then.
		if contents, err = beside(f.dataDir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(contents)) }()
	}
	archive, err := backup.ReadInto(r, contents)
	if err != nil {
		return ofFile(file, err)
	}
	// Something after the end of what was encrypted is no part of it.
	if sealed {
		if _, err := io.Copy(io.Discard, r); err != nil {
			return ofFile(file, err)
		}
	}
	what := "backup of " + nameOf(archive.Manifest)
	made := a.moment(archive.Made)
	if f.dryRun {
		return a.printf("%s, made %s: whole, entries: %d at revision %s, files: %d", what, made, archive.Entries,
			archive.At, len(archive.Files))
	}
	if err := backup.Restore(ctx, f.dataDir, archive, a.opts.Now(), slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if err := a.printf("data directory %s made of the %s, made %s; entries: %d at revision %s, files: %d", f.dataDir,
		what, made, archive.Entries, archive.At, len(archive.Files)); err != nil {
		return err
	}
	a.notef("next: verge %s --data-dir %s, with its former flags\n  then: verge recovery shows the progress",
		archive.Role, f.dataDir)
	return nil
}

// beside makes a folder beside a data directory, for what is being read.
func beside(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = atomicfile.MkdirAll(filepath.Dir(dir), 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".objects-*")
	if err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	return tmp, nil
}
