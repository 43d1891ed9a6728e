package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// Records is what drops stored records of a root or a cluster that cannot be read.
type Records struct {
	List    func(ctx context.Context, dir string, log *slog.Logger) ([]LostRecord, error)
	Drop    func(ctx context.Context, dir string, q DropRecord, log *slog.Logger) (saved string, err error)
	PutBack func(ctx context.Context, dir, file string, q DropRecord, log *slog.Logger) (key string, err error)
}

// LostRecord is a stored record that its role cannot read.
type LostRecord struct {
	Key string `json:"key"`
	// Role is the effect on the role: "does not start", "decides nothing", "goes on without",
	// "makes it anew".
	Role string `json:"role"`
	Why  string `json:"why"`
	// Drop is what follows when it is dropped; Confirm: that has to be confirmed, Security:
	// and once more, since security hangs on it.
	Drop     string `json:"drop"`
	Confirm  bool   `json:"confirm,omitempty"`
	Security bool   `json:"security,omitempty"`
	Bytes    int    `json:"bytes"`
	Revision uint64 `json:"revision"`
	Value    []byte `json:"-"` // may be secret
}

// DropRecord is what is to be dropped, or put back.
type DropRecord struct {
	Key string
	// Confirm is the key once more, Security and Newer that this is meant although security
	// hangs on it, or although a newer program can read it.
	Confirm         string
	Security, Newer bool
	Who             string
	Now             time.Time
}

func (a *app) recordsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "records", Short: "Save and drop unreadable records of a root or cluster", Args: cobra.ArbitraryArgs,
		RunE: group,
		Long: `Save and drop unreadable records of a root or cluster: damaged ones, and those that a
newer program wrote. verge status, and the log of a role that does not start, name them.

This works on the data directory of a stopped role, as the directory's user; running
instances continue. Restoring an earlier backup keeps what is in the record and loses
what is newer than the backup; dropping the record does the opposite.`,
	}
	cmd.AddCommand(a.recordsLsCommand(), a.recordsShowCommand(), a.recordsDropCommand(), a.recordsPutBackCommand())
	return cmd
}

func dataDirFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "data-dir", "", "the data directory of the root or cluster, which must be stopped")
	if err := cmd.MarkFlagDirname("data-dir"); err != nil {
		panic(err) // there is such a flag
	}
}

// records is what works on a data directory; which one is asked for, since there is no going
// by a default where something is dropped.
func (a *app) records(cmd *cobra.Command, dir string) (Records, error) {
	if dir == "" {
		return Records{}, usageError(cmd, "give --data-dir DIR, the data directory of the root or cluster")
	}
	if a.opts.Records == nil {
		return Records{}, errors.New("this build lacks the roles")
	}
	return *a.opts.Records, nil
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (a *app) recordsLsCommand() *cobra.Command {
	mode, dir := "", ""
	cmd := &cobra.Command{
		Use: "ls --data-dir DIR", Aliases: []string{"list"}, Short: "List unreadable records", Args: noArgs,
		Long: "List unreadable records, the most important first, with what their role does without them\n" +
			"and what follows if they are dropped. This changes nothing.",
		Example: "  verge records ls --data-dir /var/lib/verge/cluster",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.records(cmd, dir)
			if err != nil {
				return err
			}
			list, err := r.List(cmd.Context(), dir, quiet())
			return show(a, lostRecords(), mode, "", false)(list, err)
		},
	}
	dataDirFlag(cmd, &dir)
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

func lostRecords() listing[LostRecord] {
	type view = LostRecord
	return listing[view]{kind: "record", name: func(v view) string { return v.Key }, columns: []column[view]{
		{name: "record", cell: func(v view) cell { return text(v.Key) }},
		{name: "its role", cell: func(v view) cell { return text(v.Role) }},
		{name: "asks for", cell: func(v view) cell {
			switch {
			case v.Security:
				return cell{"--confirm --security", yellow}
			case v.Confirm:
				return cell{"--confirm", yellow}
			}
			return text("")
		}},
		{name: "if it is dropped", cell: func(v view) cell { return text(v.Drop) }},
		{name: "why", wide: true, cell: func(v view) cell { return text(v.Why) }},
		{name: "bytes", wide: true, cell: func(v view) cell { return text(strconv.Itoa(v.Bytes)) }},
		{name: "revision", wide: true, cell: func(v view) cell { return text(strconv.FormatUint(v.Revision, 10)) }},
	}}
}

func (a *app) recordsShowCommand() *cobra.Command {
	dir, to := "", ""
	cmd := &cobra.Command{
		Use: "show KEY --data-dir DIR --to FILE", Short: "Save an unreadable record to a file", Args: oneArg("KEY"),
		Long: "Save an unreadable record to a new file, byte for byte. It may contain secrets, so it is not\n" +
			"shown, and only you can read the file.",
		Example: "  verge records show app.shop --data-dir /var/lib/verge/root --to shop.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.records(cmd, dir)
			if err != nil {
				return err
			}
			if to == "" {
				return usageError(cmd, "give --to FILE: a record may contain secrets, so it is not shown")
			}
			list, err := r.List(cmd.Context(), dir, quiet())
			if err != nil {
				return err
			}
			for _, v := range list {
				if v.Key == args[0] {
					if err := newFile(to, v.Value); err != nil {
						return &userError{what: "the file cannot be written", why: err.Error(),
							next: "choose another name"}
					}
					return a.printf("record/%s written to %s: %d bytes", v.Key, to, len(v.Value))
				}
			}
			return &userError{what: "no such unreadable record", why: args[0],
				next: "verge records ls --data-dir " + dir}
		},
	}
	dataDirFlag(cmd, &dir)
	cmd.Flags().StringVar(&to, "to", "", "the file to create")
	return cmd
}

// newFile writes a file that is not there yet, for its owner alone.
func newFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}

// localUser is who works on this machine, as the audit log has it.
func (a *app) localUser() string {
	name := a.opts.Getenv("SUDO_USER")
	if u, err := user.Current(); name == "" && err == nil {
		name = u.Username
	}
	return "local/" + name
}

func (a *app) recordsDropCommand() *cobra.Command {
	dir, q := "", DropRecord{}
	cmd := &cobra.Command{
		Use: "drop KEY --data-dir DIR", Short: "Drop an unreadable record, after saving it", Args: oneArg("KEY"),
		Long: `Drop an unreadable record. It is first saved in the folder "dropped" of the data
directory, and can be put back; the audit log says who dropped it.

If the role decides nothing without the record, repeat its key with --confirm. When
such a role starts, it asks its neighbours for their state and takes that over before
it decides anything (verge recovery), so running instances continue; verge records ls
says what is lost. A record that security depends on needs --security too. One that a
newer program wrote is whole: --newer drops it to go back for good.`,
		Example: "  verge records drop app.shop --data-dir /var/lib/verge/root --confirm app.shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.records(cmd, dir)
			if err != nil {
				return err
			}
			q.Key, q.Who, q.Now = args[0], a.localUser(), a.opts.Now()
			saved, err := r.Drop(cmd.Context(), dir, q, quiet())
			if err != nil {
				return err
			}
			if err := a.printf("record/%s dropped, saved as %s", q.Key, saved); err != nil {
				return err
			}
			a.notef("next: start the role as before; to undo this before that: verge records put-back %s --data-dir %s",
				saved, dir)
			return nil
		},
	}
	dataDirFlag(cmd, &dir)
	cmd.Flags().StringVar(&q.Confirm, "confirm", "", "the key again, if the role decides nothing without the record")
	cmd.Flags().BoolVar(&q.Security, "security", false, "drop it although security depends on it")
	cmd.Flags().BoolVar(&q.Newer, "newer", false, "drop it although a newer program can read it")
	return cmd
}

func (a *app) recordsPutBackCommand() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use: "put-back FILE --data-dir DIR", Short: "Put a dropped record back", Args: oneArg("FILE"),
		Long: "Put a dropped record back from the file that it was saved in. This is refused if a record\n" +
			"with its key exists again.",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.records(cmd, dir)
			if err != nil {
				return err
			}
			key, err := r.PutBack(cmd.Context(), dir, args[0], DropRecord{Who: a.localUser(), Now: a.opts.Now()},
				quiet())
			if err != nil {
				return err
			}
			return a.printf("record/%s put back", key)
		},
	}
	dataDirFlag(cmd, &dir)
	return cmd
}
