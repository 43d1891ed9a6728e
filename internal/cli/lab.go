package cli

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
)

// Lab is the test bed; see verge lab. What it cannot do here it says itself.
type Lab struct {
	Up     func(ctx context.Context, p LabProcess, file string) error
	Down   func(ctx context.Context, p LabProcess, name string) error
	Status func(ctx context.Context, name string) (Sheet, error)
	Set    func(ctx context.Context, name string, l LabLink) (string, error)
	// Shell becomes the command; it returns only if that fails.
	Shell func(ctx context.Context, name, host string, command []string) error
	// Switch is the emulator of links, in a process of its own.
	Switch func(ctx context.Context, config, socket string) error
	// WireGuard is a device and nothing else, which experiments compare with.
	WireGuard func(ctx context.Context, config string) error
	// Pod is an instance whose work is to wait, by its environment.
	Pod func(ctx context.Context) error
	// List of the experiments; Run runs some. Short is an error that names the
	// requirements that were not met, beside their rows.
	List   func() Sheet
	Run    func(ctx context.Context, p LabProcess, r LabRun) (rows Sheet, short error, err error)
	Report func(ctx context.Context, dir string) (file string, err error)
}

// LabProcess is what the lab gets of this process.
type LabProcess struct{ Stdout, Stderr io.Writer }

// Sheet is what can be shown as a table, and is encoded as JSON or YAML.
type Sheet interface {
	Table() (head []string, rows [][]string)
}

// LabLink is a change of a link.
type LabLink struct {
	A, B   string
	OneWay bool
	// What is nil stays.
	Latency, RTT, Jitter *time.Duration
	Loss                 *float64
	Rate                 *int64 // bits per second, 0: no limit
	Buffer               *int64
	Reorder, Cut         *bool
}

// LabRun is a run of experiments.
type LabRun struct {
	Names []string
	Quick bool
	Seed  uint64
	// Dir gets the results; "" keeps none.
	Dir string
}

func (a *app) labCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "lab", Short: "A test bed with real distances on this machine, and the experiments that run in it",
		Long: `A test bed on one Linux machine: hosts are network namespaces, links between them
have latency, jitter, loss, a rate and NAT, and real processes of Verge run in them.
It needs root. Nothing of the machine's own network is changed.`,
		Args: cobra.ArbitraryArgs, RunE: group,
	}
	cmd.AddCommand(a.labUp(), a.labDown(), a.labStatus(), a.labShell(), a.labLink(), a.labSwitch(), a.labWireGuard(), a.labPod(), a.labList(), a.labRun(), a.labReport())
	return cmd
}

func (a *app) lab() (*Lab, error) {
	if a.opts.Lab == nil {
		return nil, &userError{what: "lab", why: "it needs Linux: hosts are network namespaces", next: "run it on a Linux machine, as root"}
	}
	return a.opts.Lab, nil
}

func (a *app) labProcess() LabProcess { return LabProcess{Stdout: a.out, Stderr: a.err} }

func (a *app) labUp() *cobra.Command {
	return &cobra.Command{
		Use: "up FILE", Short: "Make the hosts and links of a lab file and start what runs there", Args: oneArg("the lab file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.lab()
			if err != nil {
				return err
			}
			return l.Up(cmd.Context(), a.labProcess(), args[0])
		},
	}
}

// optional is the one argument that may be given.
func optional(cmd *cobra.Command, args []string, what string) (string, error) {
	switch len(args) {
	case 0:
		return "", nil
	case 1:
		return args[0], nil
	}
	return "", usageError(cmd, "%q is one argument too many, it takes %s", args[1], what)
}

func (a *app) labDown() *cobra.Command {
	return &cobra.Command{
		Use: "down [NAME]", Short: "End everything in a lab and remove it; also what a killed one has left",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := optional(cmd, args, "the name of a lab")
			if err != nil {
				return err
			}
			l, err := a.lab()
			if err != nil {
				return err
			}
			return l.Down(cmd.Context(), a.labProcess(), name)
		},
	}
}

func (a *app) labStatus() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "status [NAME]", Short: "Hosts of a lab, their addresses, links that differ, and the emulator's own error",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := optional(cmd, args, "the name of a lab")
			if err != nil {
				return err
			}
			l, err := a.lab()
			if err != nil {
				return err
			}
			s, err := l.Status(cmd.Context(), name)
			if err != nil {
				return err
			}
			return a.sheet(mode, s)
		},
	}
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

func (a *app) labShell() *cobra.Command {
	name := ""
	cmd := &cobra.Command{
		Use: "shell HOST [-- COMMAND [ARGUMENT…]]", Short: "Run a command in a host of a lab; without one, a shell",
		Example: "  verge lab shell client -- ping -c 3 edge-1\n  verge lab shell root -- verge get workers",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || cmd.ArgsLenAtDash() == 0 || cmd.ArgsLenAtDash() > 1 {
				return usageError(cmd, "write it as HOST -- COMMAND")
			}
			l, err := a.lab()
			if err != nil {
				return err
			}
			command := args[1:]
			if len(command) == 0 {
				command = []string{"/bin/sh"}
				if s := a.opts.Getenv("SHELL"); s != "" {
					command[0] = s
				}
			}
			return l.Shell(cmd.Context(), name, args[0], command)
		},
	}
	cmd.Flags().StringVar(&name, "lab", "", "name of the lab (default: the only one)")
	return cmd
}

func (a *app) labLink() *cobra.Command {
	cmd := &cobra.Command{
		Use: "link", Short: "Change links of a lab while it runs", Args: cobra.ArbitraryArgs, RunE: group,
	}
	yes, no := true, false
	cmd.AddCommand(
		a.labSetLink(),
		a.labCutLink("cut HOST HOST", "Let nothing pass between two hosts", &yes),
		a.labCutLink("heal HOST HOST", "Let packets pass again between two hosts", &no),
	)
	return cmd
}

// twoHosts are the arguments of a change of a link.
func twoHosts(cmd *cobra.Command, args []string) (LabLink, error) {
	if len(args) != 2 {
		return LabLink{}, usageError(cmd, "it takes two hosts")
	}
	return LabLink{A: args[0], B: args[1]}, nil
}

func (a *app) changeLink(ctx context.Context, name string, link LabLink) error {
	l, err := a.lab()
	if err != nil {
		return err
	}
	now, err := l.Set(ctx, name, link)
	if err != nil {
		return err
	}
	way := "and back"
	if link.OneWay {
		way = "one way"
	}
	return a.printf("%s to %s (%s): %s", link.A, link.B, way, now)
}

func (a *app) labCutLink(use, short string, cut *bool) *cobra.Command {
	name, oneWay := "", false
	cmd := &cobra.Command{Use: use, Short: short, RunE: func(cmd *cobra.Command, args []string) error {
		link, err := twoHosts(cmd, args)
		if err != nil {
			return err
		}
		link.Cut, link.OneWay = cut, oneWay
		return a.changeLink(cmd.Context(), name, link)
	}}
	cmd.Flags().StringVar(&name, "lab", "", "name of the lab (default: the only one)")
	cmd.Flags().BoolVar(&oneWay, "one-way", false, "from the first to the second only")
	return cmd
}

func (a *app) labSetLink() *cobra.Command {
	var (
		name, loss, rate, buffer string
		link                     LabLink
		latency, rtt, jitter     time.Duration
		reorder                  bool
	)
	cmd := &cobra.Command{
		Use: "set HOST HOST", Short: "Change the link between two hosts; what is not said stays",
		Example: "  verge lab link set edge-1 client --latency 30ms --loss 20%\n  verge lab link set edge-1 client --rate 10Mbps --one-way",
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l, err := twoHosts(cmd, args)
		if err != nil {
			return err
		}
		link.A, link.B = l.A, l.B
		given := cmd.Flags().Changed
		for flag, to := range map[string]struct {
			field **time.Duration
			value *time.Duration
		}{"latency": {&link.Latency, &latency}, "rtt": {&link.RTT, &rtt}, "jitter": {&link.Jitter, &jitter}} {
			if given(flag) {
				*to.field = to.value
			}
		}
		if given("reorder") {
			link.Reorder = &reorder
		}
		if err := readLink(&link, loss, rate, buffer); err != nil {
			return usageError(cmd, "%v", err)
		}
		return a.changeLink(cmd.Context(), name, link)
	}
	fl := cmd.Flags()
	fl.StringVar(&name, "lab", "", "name of the lab (default: the only one)")
	fl.BoolVar(&link.OneWay, "one-way", false, "from the first to the second only")
	fl.DurationVar(&latency, "latency", 0, "of each direction")
	fl.DurationVar(&rtt, "rtt", 0, "latency of both directions together")
	fl.DurationVar(&jitter, "jitter", 0, "each packet's latency is up to this much more or less")
	fl.BoolVar(&reorder, "reorder", false, "packets may overtake each other by their jitter")
	fl.StringVar(&loss, "loss", "", "share of packets that is lost in each direction: 20% or 0.2")
	fl.StringVar(&rate, "rate", "", "as 10Mbps; 0 is without limit")
	fl.StringVar(&buffer, "buffer", "", "bytes that may wait for the rate, as 64Ki (default: those of 100 ms)")
	return cmd
}

// readLink reads what is written with a unit.
func readLink(link *LabLink, loss, rate, buffer string) error {
	if loss != "" {
		text, percent := strings.CutSuffix(loss, "%")
		v, err := strconv.ParseFloat(text, 64)
		if percent {
			v /= 100
		}
		if err != nil || !(v >= 0 && v <= 1) {
			return fmt.Errorf("--loss %s: write a share as 20%% or 0.2", loss)
		}
		link.Loss = &v
	}
	if rate == "0" {
		link.Rate = new(int64)
	} else if rate != "" {
		v, err := api.ParseBitrate(rate)
		if err != nil {
			return fmt.Errorf("--rate: %w", err)
		}
		n := int64(v)
		link.Rate = &n
	}
	if buffer != "" {
		v, err := api.ParseBytes(buffer)
		if err != nil {
			return fmt.Errorf("--buffer: %w", err)
		}
		n := int64(v)
		link.Buffer = &n
	}
	return nil
}

func (a *app) labWireGuard() *cobra.Command {
	return &cobra.Command{
		Use: "wireguard CONFIG", Short: "Be one end of a tunnel; an experiment starts it", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.lab()
			if err != nil {
				return err
			}
			return l.WireGuard(cmd.Context(), args[0])
		},
	}
}

func (a *app) labPod() *cobra.Command {
	return &cobra.Command{
		Use: "pod", Short: "Be an instance that works for a drawn time; an experiment deploys it", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.lab()
			if err != nil {
				return err
			}
			return l.Pod(cmd.Context())
		},
	}
}

func (a *app) labSwitch() *cobra.Command {
	return &cobra.Command{
		Use: "switch CONFIG SOCKET", Short: "Emulate links; a lab starts it", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.lab()
			if err != nil {
				return err
			}
			return l.Switch(cmd.Context(), args[0], args[1])
		},
	}
}

func (a *app) labList() *cobra.Command {
	return a.experimentList("List the experiments, and those that cannot be run with the reason", func() (Sheet, error) {
		l, err := a.lab()
		if err != nil {
			return nil, err
		}
		return l.List(), nil
	})
}

// experimentList is the command that lists experiments.
func (a *app) experimentList(short string, list func() (Sheet, error)) *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "list", Short: short, Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := list()
			if err != nil {
				return err
			}
			return a.sheet(mode, s)
		},
	}
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

func (a *app) labRun() *cobra.Command {
	return a.experimentRun("lab", "proxymity-imbalance", "proxymity-latency", func(ctx context.Context, r LabRun) (Sheet, error, error) {
		l, err := a.lab()
		if err != nil {
			return nil, nil, err
		}
		return l.Run(ctx, a.labProcess(), r)
	})
}

// experimentRun is the command of a group that runs experiments, with two of them as
// examples.
func (a *app) experimentRun(group, one, other string, run func(context.Context, LabRun) (rows Sheet, short, err error)) *cobra.Command {
	mode, r := "", LabRun{}
	cmd := &cobra.Command{
		Use: "run NAME…", Short: "Run experiments and compare with what the papers say",
		Long: `Run experiments and compare with what the papers say. The exit code is 1 if a row
that the experiment calls a requirement falls short.`,
		Example: fmt.Sprintf("  verge %s run %s\n  verge %s run %s --quick -o json", group, one, group, other),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(cmd, "the name of an experiment is missing; verge %s list has them", group)
			}
			r.Names = args
			rows, short, err := run(cmd.Context(), r)
			if err != nil {
				return err
			}
			if err := a.sheet(mode, rows); err != nil {
				return err
			}
			return short
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&r.Quick, "quick", false, "a short form, of ten seconds at most each")
	fl.Uint64Var(&r.Seed, "seed", 1, "of everything that is drawn by chance")
	fl.StringVar(&r.Dir, "dir", "", "also write results (JSON, CSV, SVG) to this directory, for verge lab report")
	outputFlag(cmd, &mode, "table", "json", "csv")
	return cmd
}

func (a *app) labReport() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use: "report", Short: "Write a report in Markdown of the results that verge lab run --dir has left", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.lab()
			if err != nil {
				return err
			}
			file, err := l.Report(cmd.Context(), dir)
			if err != nil {
				return err
			}
			return a.printf("%s", file)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "lab-results", "directory with the results")
	return cmd
}

// sheet prints s.
func (a *app) sheet(mode string, s Sheet) error {
	head, rows := s.Table()
	switch mode {
	case "json", "yaml":
		return a.encode(mode, s)
	case "csv":
		w := csv.NewWriter(a.out)
		if err := errors.Join(w.Write(head), w.WriteAll(rows)); err != nil {
			return fmt.Errorf("write to standard output: %w", err)
		}
		return nil
	}
	cells := make([][]cell, len(rows))
	for i, r := range rows {
		for _, c := range r {
			cells[i] = append(cells[i], text(c))
		}
	}
	if err := a.table(head, cells); err != nil {
		return err
	}
	if n, ok := s.(interface{ Note() string }); ok {
		a.notef("%s", n.Note())
	}
	return nil
}
