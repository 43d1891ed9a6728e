package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/backup"
)

// Bounds of repeated backups.
const (
	minEvery      = time.Minute
	defaultKeep   = 24
	retryFirst    = 10 * time.Second
	retryLast     = 10 * time.Minute
	maxPassphrase = 4 << 10
	backupSuffix  = ".backup"
)

type backupFlags struct {
	passphraseFile string
	recipients     []string
	plain, force   bool
	noObjects      bool
	every          time.Duration
	keep           int
}

func (a *app) backupCommand() *cobra.Command {
	var f backupFlags
	cmd := &cobra.Command{
		Use:   "backup FILE|- | --every INTERVAL DIR",
		Short: "Back up a root or cluster into an encrypted file, once or repeatedly",
		Long: `Back up a root or cluster into an encrypted file, once or repeatedly.

The context says which root or cluster. The backup is fetched over the network, so
the file is on this machine. It is a snapshot of one moment, and is read back
completely before the file gets its name. It contains the keys of everything below
that root or cluster, and the contents of its objects unless you give --no-objects.
So it is encrypted with a passphrase, or for recipients (age1…, of age-keygen),
unless you give --plain.

With --every it stays in the foreground until you end it, for example as a systemd
unit: it takes a backup at once and then in each interval, retries failures, and
removes the oldest beyond --keep.`,
		Example: "  verge backup root.backup --passphrase-file pass\n" +
			"  verge backup --every 1h --keep 48 --recipient age1… /srv/backups",
		Args: oneArg("FILE, or DIR with --every"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		seal, err := a.seal(cmd, f)
		if err != nil {
			return err
		}
		again := cmd.Flags().Changed("every")
		switch {
		case again && f.every < minEvery:
			return usageError(cmd, "--every must be at least %s", api.Duration(minEvery))
		case again && f.keep < 1:
			return usageError(cmd, "--keep must be at least 1")
		case again && f.force, !again && cmd.Flags().Changed("keep"):
			return usageError(cmd, "--keep is for --every, and --force for a single file")
		case again:
			return a.backups(cmd.Context(), args[0], seal, f)
		}
		return a.backup(cmd.Context(), args[0], seal, f)
	}
	cmd.Flags().StringVar(&f.passphraseFile, "passphrase-file", "", "encrypt with the passphrase in this file")
	cmd.Flags().StringArrayVar(&f.recipients, "recipient", nil,
		"encrypt for this public key of age (age1…; repeatable)")
	cmd.Flags().BoolVar(&f.plain, "plain", false, "leave it unencrypted: whoever has the file has the keys in it")
	cmd.Flags().BoolVar(&f.force, "force", false, "replace FILE if it is there")
	cmd.Flags().BoolVar(&f.noObjects, "no-objects", false, "leave out the contents of objects, and keep their names")
	cmd.Flags().DurationVar(&f.every, "every", 0, "take one in each interval, until you end it")
	cmd.Flags().IntVar(&f.keep, "keep", defaultKeep, "with --every: how many are kept")
	return cmd
}

// seal is how the backups are to be encrypted.
func (a *app) seal(cmd *cobra.Command, f backupFlags) (backup.Seal, error) {
	ways := 0
	for _, given := range []bool{f.passphraseFile != "", len(f.recipients) > 0, f.plain} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return backup.Seal{}, usageError(cmd,
			"give one of --passphrase-file, --recipient and --plain: a backup contains keys")
	}
	s := backup.Seal{Recipients: f.recipients, Work: a.opts.SealWork}
	if f.passphraseFile != "" {
		var err error
		if s.Passphrase, err = a.passphrase(f.passphraseFile); err != nil {
			return s, err
		}
	}
	// An invalid recipient is reported before any question.
	w, err := s.Writer(io.Discard)
	if err != nil {
		return s, err
	}
	return s, w.Close()
}

// passphrase reads the file that holds it.
func (a *app) passphrase(path string) (string, error) {
	const next = "write the passphrase into a file that only you can read"
	data, err := atomicfile.ReadBounded(path, maxPassphrase)
	if err != nil {
		return "", &userError{what: "the passphrase cannot be read", why: err.Error(), next: next}
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", &userError{what: "the passphrase cannot be read", why: path + " is empty", next: next}
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		a.notef("%s %s can be read by others: chmod 600 %s", a.paint(a.err, yellow, "warning:"), path, path)
	}
	return text, nil
}

// backup takes one.
func (a *app) backup(ctx context.Context, file string, seal backup.Seal, f backupFlags) error {
	if file != "-" && !f.force {
		if _, err := os.Lstat(file); err == nil {
			return &userError{what: "the file exists", why: file, next: "choose another name, or give --force"}
		}
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	if file == "-" {
		m, size, err := take(ctx, c, seal, !f.noObjects, a.out)
		if err != nil {
			return err
		}
		a.notef("backup of %s written: %s", nameOf(m), contents(m, size, seal))
		return nil
	}
	m, size, err := takeFile(ctx, c, seal, !f.noObjects, func(backup.Manifest) string { return file })
	if err != nil {
		return err
	}
	return a.printf("backup of %s written to %s: %s", nameOf(m), file, contents(m, size, seal))
}

// nameOf is "root" or "cluster edge".
func nameOf(m backup.Manifest) string {
	if m.Role == "root" {
		return "root"
	}
	return m.Role + " " + m.Name
}

func contents(m backup.Manifest, bytes int64, seal backup.Seal) string {
	how := "encrypted"
	if seal.Passphrase == "" && len(seal.Recipients) == 0 {
		how = "not encrypted"
	}
	if m.Objects {
		how = "with the contents of objects, " + how
	}
	return fmt.Sprintf("%.1f KiB, %d entries at revision %s, %s", float64(bytes)/1024, m.Entries, m.At, how)
}

// take writes a backup to w and checks it on the way.
func take(ctx context.Context, c *client.Client, seal backup.Seal, objects bool, w io.Writer) (m backup.Manifest,
	size int64, err error) {
	body, err := c.System.Backup(ctx, objects)
	if err != nil {
		return m, 0, err
	}
	defer func() { _ = body.Close() }() // it was read to its end, or failed before
	counted := &counter{w: w}
	sealed, err := seal.Writer(counted)
	if err != nil {
		return m, 0, err
	}
	// What is written is read at the same time, as a restore would.
	r, p := io.Pipe()
	checked := make(chan error, 1)
	go func() {
		var err error
		m, err = backup.Verify(r)
		_, _ = io.Copy(io.Discard, r) // so that the writer does not wait for ever
		checked <- err
	}()
	_, err = io.Copy(io.MultiWriter(sealed, p), body)
	_ = p.Close() // never fails
	cerr := <-checked
	if err == nil {
		err = sealed.Close()
	} else {
		err = &userError{what: "the backup was interrupted", why: err.Error(), next: "try again"}
	}
	if err == nil {
		err = cerr
	}
	return m, counted.n, err
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// takeFile writes a backup to the file that name chooses: it has its name when it
// is whole and on disk.
func takeFile(ctx context.Context, c *client.Client, seal backup.Seal, objects bool,
	name func(backup.Manifest) string) (m backup.Manifest, size int64, err error) {
	// Where the name depends on the backup it is in the same folder all the same.
	dir := filepath.Dir(name(m))
	f, err := os.CreateTemp(dir, ".verge-*"+backupSuffix+".tmp")
	if err != nil {
		return m, 0, fmt.Errorf("write the backup: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removed(f.Name()))
		}
	}()
	m, size, err = take(ctx, c, seal, objects, f) // the mode of a temporary file is 0600
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return m, size, err
	}
	if err := os.Rename(f.Name(), name(m)); err != nil {
		return m, size, fmt.Errorf("put the backup in place: %w", err)
	}
	return m, size, atomicfile.SyncDir(dir)
}

// removed removes a file that may be gone.
func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// backups takes one in each interval until ctx ends.
func (a *app) backups(ctx context.Context, dir string, seal backup.Seal, f backupFlags) error {
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("backups: %w", err)
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	// What another run could not finish.
	if old, err := filepath.Glob(filepath.Join(dir, ".verge-*"+backupSuffix+".tmp")); err == nil {
		for _, p := range old {
			if err := removed(p); err != nil {
				return err
			}
		}
	}
	retry := retryFirst
	for {
		begin := a.opts.Now()
		path := ""
		m, size, err := takeFile(ctx, c, seal, !f.noObjects, func(m backup.Manifest) string {
			path = filepath.Join(dir, prefixOf(m)+begin.UTC().Format("20060102T150405Z")+backupSuffix)
			return path
		})
		wait := f.every
		switch {
		case ctx.Err() != nil:
			return nil // it was ended, which is how this ends
		case err != nil:
			wait = min(retry, f.every)
			retry = min(2*retry, retryLast)
			a.notef("%s %s\n  again in %s", a.paint(a.err, red, "backup failed:"), cleanLines(err.Error()),
				api.Duration(wait))
		default:
			retry = retryFirst
			gone, err := prune(dir, prefixOf(m), f.keep)
			if err != nil {
				a.notef("%s old backups cannot be removed: %v", a.paint(a.err, yellow, "warning:"), err)
			}
			text := fmt.Sprintf("backup of %s written to %s: %s", nameOf(m), path, contents(m, size, seal))
			if gone > 0 {
				text += fmt.Sprintf("; %d older removed", gone)
			}
			if err := a.printf("%s", text); err != nil {
				return err
			}
		}
		if a.opts.Sleep(ctx, max(0, wait-a.opts.Now().Sub(begin))) != nil {
			return nil
		}
	}
}

// prefixOf the files of one root or cluster.
func prefixOf(m backup.Manifest) string {
	if m.Role == "root" {
		return "verge-root-"
	}
	return "verge-" + m.Role + "-" + m.Name + "-"
}

// prune removes all but the newest of the files with a prefix.
func prune(dir, prefix string, keep int) (gone int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var names []string
	for _, e := range entries {
		at, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), backupSuffix), prefix)
		if _, perr := time.Parse("20060102T150405Z", at); ok && perr == nil && e.Type().IsRegular() &&
			strings.HasSuffix(e.Name(), backupSuffix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names) // by time, since that is what they are called by
	for _, name := range names[:max(0, len(names)-keep)] {
		if err := removed(filepath.Join(dir, name)); err != nil {
			return gone, err
		}
		gone++
	}
	return gone, nil
}
