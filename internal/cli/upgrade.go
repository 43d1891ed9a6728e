package cli

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/pki/programsig"
	"github.com/verge-edge/verge/internal/wire"
)

func (a *app) upgradeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "upgrade", Short: "Upgrade the workers of a cluster, in waves", Args: cobra.ArbitraryArgs, RunE: group,
		Long: `Upgrade the workers of a cluster to another version of verge, in waves, with a context
of the cluster, as its administrator.

You put the program into the cluster. Each worker fetches it, and its engine and agent
continue as the new program: instances and connections go on. A worker takes part only
if it was started with --upgrades. If the new program does not work, the worker goes back
by itself. Then, or if instances there are not ready again, the upgrade halts.

"verge worker upgrade", on a worker's own machine, needs none of this.`,
	}
	cmd.AddCommand(a.upgradeStartCommand(), a.upgradeStatusCommand(),
		a.upgradeActionCommand(apiv1.UpgradePause, "Pause an upgrade",
			"Pause an upgrade: workers that have begun finish, and no more begin.", "paused"),
		a.upgradeActionCommand(apiv1.UpgradeResume, "Resume an upgrade that was paused or has halted",
			"Resume an upgrade that was paused or has halted. Workers that failed, were skipped, or have\n"+
				"joined since get another try.", "resumed"),
		a.upgradeActionCommand(apiv1.UpgradeUndo, "Undo an upgrade, in waves",
			"Undo an upgrade: upgraded workers go back to their former program, which each of them keeps,\n"+
				"in the same waves.", "goes back"))
	return cmd
}

type upgradeStart struct {
	binaries, workers      []string
	sign, reason           string
	wave                   int
	soak, perWorker, drain time.Duration
	noWait                 bool
	timeout                time.Duration
}

func (a *app) upgradeStartCommand() *cobra.Command {
	var f upgradeStart
	cmd := &cobra.Command{
		Use: "start --binary FILE", Short: "Upgrade the workers of the cluster, and wait until done", Args: noArgs,
		Long: `Upgrade the workers of the cluster, and wait until done.

Give one program for each kind of machine; the file says which. Workers are upgraded
--wave at a time by name. The next wave begins when every worker of the one before has
been connected, with its instances ready and none restarted, for --soak. A worker that is
away holds up no other, and has its turn when it is back.

--sign signs the programs, for workers that were started with the public part of the key
(openssl genpkey -algorithm ed25519; openssl pkey -pubout). Then control of the cluster
alone is not enough to install another program on them.

Exit code 0: all are upgraded; 1: an error; 2: it continues, has halted, or some were
skipped.`,
		Example: "  verge upgrade start --binary verge-amd64 --binary verge-arm64 --wave 5\n" +
			"  verge upgrade start --binary ./verge --sign release.key --worker w1",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(f.binaries) == 0 {
				return usageError(cmd, "--binary is missing")
			}
			if f.timeout <= 0 {
				return usageError(cmd, "--timeout must be more than 0")
			}
			return a.withClient(func(c *client.Client) error { return a.startUpgrade(cmd.Context(), c, &f) })
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.binaries, "binary", nil, "file with the program (repeatable: one for each kind of machine)")
	fl.StringSliceVar(&f.workers, "worker", nil, "only this worker (repeatable; default: all)")
	fl.StringVar(&f.sign, "sign", "", "file with a private key (PEM, Ed25519) that signs the programs")
	fl.IntVar(&f.wave, "wave", 1, "how many workers at a time")
	fl.DurationVar(&f.soak, "soak", apiv1.DefaultSoak, "how long a worker is watched before the next wave")
	fl.DurationVar(&f.perWorker, "worker-timeout", apiv1.DefaultWorkerTimeout, "how long a worker may take")
	fl.DurationVar(&f.perWorker, "patience", apiv1.DefaultWorkerTimeout, "")
	_ = fl.MarkDeprecated("patience", "use --worker-timeout")
	fl.DurationVar(&f.drain, "drain", wire.DefaultDrain, "how long old engines keep open connections at most")
	fl.StringVar(&f.reason, "reason", "", "the reason, shown to others")
	fl.BoolVar(&f.noWait, "no-wait", false, "do not wait until it is done")
	fl.DurationVar(&f.timeout, "timeout", time.Hour, "wait at most this long; the upgrade continues")
	return cmd
}

// machines are the processors of ELF files, as Go names them.
var machines = map[elf.Machine]string{
	elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_ARM: "arm", elf.EM_386: "386",
	elf.EM_RISCV: "riscv64", elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x", elf.EM_LOONGARCH: "loong64",
}

// programOf says what a file is that is to be the program of workers.
func programOf(path, sign string) (p wire.Program, file *os.File, err error) {
	var in client.ObjectUpload
	if file, err = openObject(path, &in); err != nil {
		return p, nil, err
	}
	defer func() {
		if err != nil {
			_ = file.Close() // it was only read
		}
	}()
	bin, err := elf.NewFile(file)
	if err != nil || machines[bin.Machine] == "" {
		return p, nil, &userError{what: "this is not a program for workers",
			why: fmt.Sprintf("%s is no program for Linux: %v", path,
				cmp.Or(err, errors.New("of an unknown processor"))),
			next: "give a verge binary, such as the package's /usr/local/bin/verge"}
	}
	p = wire.Program{OS: "linux", Arch: machines[bin.Machine], SHA256: in.Digest, Size: in.Size}
	if sign != "" {
		if p.Signature, err = programsig.Sign(sign, p.SHA256); err != nil {
			return p, nil, &userError{what: "the program is not signed", why: err.Error(),
				next: "--sign wants a private key: openssl genpkey -algorithm ed25519"}
		}
	}
	_, err = file.Seek(0, io.SeekStart)
	return p, file, err
}

func (a *app) startUpgrade(ctx context.Context, c *client.Client, f *upgradeStart) error {
	q := apiv1.UpgradeRequest{
		Workers: f.workers, Wave: f.wave, Soak: api.Duration(f.soak), WorkerTimeout: api.Duration(f.perWorker),
		Drain: api.Duration(f.drain), Reason: f.reason,
	}
	var files []*os.File
	defer func() {
		for _, file := range files {
			_ = file.Close() // it was only read
		}
	}()
	for _, path := range f.binaries {
		p, file, err := programOf(path, f.sign)
		if err != nil {
			return err
		}
		q.Programs, files = append(q.Programs, p), append(files, file)
	}
	check := q
	if err := check.Fill(); err != nil {
		return &userError{what: "the upgrade did not begin", why: err.Error(), next: "verge upgrade start --help"}
	}
	for i := range q.Programs {
		p := &q.Programs[i]
		v, err := c.Objects.Put(ctx,
			client.ObjectUpload{Namespace: wire.ProgramsNamespace, Name: p.Object(), Size: p.Size, Digest: p.SHA256,
				Body: files[i]})
		if err != nil {
			return err
		}
		if err := a.printf("program for %s/%s: %s, %s", p.OS, p.Arch, bytesText(v.Size), short(v.Digest)); err != nil {
			return err
		}
	}
	v, err := c.Upgrades.Start(ctx, q)
	if err != nil {
		return err
	}
	if f.noWait {
		return a.printf("upgrade %.6s of %d workers started: verge upgrade status", v.ID, len(v.Workers))
	}
	return a.watchUpgrade(ctx, c, v.ID, f.timeout)
}

// watchUpgrade shows what happens until an upgrade goes no further.
func (a *app) watchUpgrade(ctx context.Context, c *client.Client, id string, timeout time.Duration) error {
	var v apiv1.UpgradeView
	phases := map[string]string{}
	err := a.poll(ctx, timeout, func() (bool, error) {
		var err error
		if v, err = c.Upgrades.Get(ctx); err != nil {
			return false, err
		}
		if v.ID != id {
			return false, &userError{what: "the upgrade is over", why: "another one has started",
				next: "verge upgrade status"}
		}
		for _, w := range v.Workers {
			if phases[w.Name] == w.Phase || phases[w.Name] == "" && w.Phase == "waiting" {
				continue
			}
			phases[w.Name] = w.Phase
			why := ""
			if w.Why != "" {
				why = ": " + w.Why
			}
			if err := a.printf("worker/%s %s%s", w.Name, w.Phase, why); err != nil {
				return false, err
			}
		}
		return v.State != apiv1.UpgradeRolling, nil
	})
	if err != nil && !errors.Is(err, errTimeout) {
		return err
	}
	return a.judgeUpgrade(v)
}

// judgeUpgrade is nil where all workers are what they should be.
func (a *app) judgeUpgrade(v apiv1.UpgradeView) error {
	n := map[string]int{}
	var skipped []string
	for _, w := range v.Workers {
		n[w.Phase]++
		if w.Phase == "skipped" && !w.Unasked() && !v.Undo {
			skipped = append(skipped, w.Name+": "+w.Why)
		}
	}
	did := "upgraded"
	if v.Undo {
		did = "as before"
	}
	switch {
	case v.State == apiv1.UpgradeNone:
		return a.printf("the workers of cluster %s have never been upgraded", v.Cluster)
	case v.State == apiv1.UpgradeDone && len(skipped) == 0:
		return a.printf("%s %s", wire.Count(n["done"], "worker"), did)
	case v.State == apiv1.UpgradeDone:
		return &incompleteError{userError{what: fmt.Sprintf("%d of %d workers are %s", n["done"], len(v.Workers), did),
			why:  strings.Join(skipped, "\n  "),
			next: "allow them to take part (verge worker --upgrades), then verge upgrade resume"}}
	}
	next := "it continues without this command: verge upgrade status --wait"
	why := v.Why
	switch v.State {
	case apiv1.UpgradePaused:
		next = "verge upgrade resume"
	case apiv1.UpgradeHalted:
		next = "verge upgrade undo; or, once the reason is gone, verge upgrade resume"
		for _, w := range v.Workers {
			if w.Phase == "failed" {
				why += "\n  " + w.Name + ": " + w.Why
			}
		}
	}
	return &incompleteError{userError{what: fmt.Sprintf("the upgrade is %s, %d of %d workers are %s", v.State,
		n["done"], len(v.Workers), did), why: why, next: next}}
}

func (a *app) upgradeStatusCommand() *cobra.Command {
	mode, wait, timeout := "", false, time.Hour
	cmd := &cobra.Command{
		Use: "status", Short: "Show the progress of an upgrade, and what it waits for", Args: noArgs,
		Long: `Show the progress of an upgrade, and what it waits for.

Exit code 0: all are upgraded; 1: an error; 2: it continues, has halted, or some were
skipped.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *client.Client) error {
				v, err := c.Upgrades.Get(cmd.Context())
				if err != nil {
					return err
				}
				if wait && v.State == apiv1.UpgradeRolling {
					return a.watchUpgrade(cmd.Context(), c, v.ID, timeout)
				}
				if mode == "json" || mode == "yaml" {
					return a.encode(mode, v)
				}
				if err := a.printUpgrade(v); err != nil {
					return err
				}
				return a.judgeUpgrade(v)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is done or has stopped")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "wait at most this long")
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

func (a *app) printUpgrade(v apiv1.UpgradeView) error {
	if v.State == apiv1.UpgradeNone {
		return a.printSpare(v)
	}
	by := ""
	if v.By != "" {
		by = " by " + v.By
	}
	for _, p := range v.Programs {
		if err := a.printf("program for %s/%s: %s, sha256:%.12s", p.OS, p.Arch, bytesText(p.Size),
			p.SHA256); err != nil {
			return err
		}
	}
	if err := a.printf("upgrade %.6s of cluster %s, started %s ago%s: %s", v.ID, v.Cluster, age(a.opts.Now().Sub(v.At)),
		by, v.State); err != nil {
		return err
	}
	rows := make([][]cell, len(v.Workers))
	for i, w := range v.Workers {
		phase := text(w.Phase)
		switch w.Phase {
		case "failed":
			phase.colour = red
		case "done":
		default:
			phase.colour = yellow
		}
		rows[i] = []cell{text(w.Name), phase, text(cmp.Or(w.Version, "-")), text(cmp.Or(w.Was, "-")),
			text(cmp.Or(w.Why, "-"))}
	}
	if err := a.table([]string{"WORKER", "UPGRADE", "VERSION", "WAS", "WHY"}, rows); err != nil {
		return err
	}
	return a.printSpare(v)
}

// printSpare says what the cluster keeps of programs of other upgrades.
func (a *app) printSpare(v apiv1.UpgradeView) error {
	if v.Spare == 0 {
		return nil
	}
	when := "within the hour"
	if left := v.SpareUntil.Sub(a.opts.Now()); left > 0 {
		when = "within " + age(left+time.Hour)
	}
	return a.printf("the cluster keeps %s that no upgrade needs, %s: removed %s", wire.Count(v.Spare, "program"),
		bytesText(v.SpareBytes), when)
}

func (a *app) upgradeActionCommand(action, short, long, did string) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use: action, Short: short, Long: long, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *client.Client) error {
				v, err := c.Upgrades.Change(cmd.Context(), action, apiv1.UpgradeAction{Reason: reason})
				if err != nil {
					return err
				}
				return a.printf("upgrade %.6s of cluster %s %s: verge upgrade status --wait", v.ID, v.Cluster, did)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "the reason, shown to others")
	return cmd
}
