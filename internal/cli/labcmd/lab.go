package labcmd

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cli"
)

// Lab is the test bed; see verge lab. What it cannot do here it says itself. Say is where it
// tells what happens.
type Lab struct {
	Up     func(ctx context.Context, say io.Writer, file string) error
	Down   func(ctx context.Context, say io.Writer, name string) error
	Status func(ctx context.Context, name string) (cli.Sheet, error)
	Set    func(ctx context.Context, name string, l Link) (string, error)
	// Shell becomes the command; it returns only if that fails.
	Shell func(ctx context.Context, name, host string, command []string) error
	// Switch is the emulator of links, in a process of its own.
	Switch func(ctx context.Context, config, socket string) error
	// WireGuard is a device and nothing else, which experiments compare with.
	WireGuard func(ctx context.Context, config string) error
	// Pod is an instance whose work is to wait, by its environment.
	Pod func(ctx context.Context) error
	// Shared is one whose requests share processors that it imagines, by its environment.
	Shared func(ctx context.Context) error
	// List of the experiments; Run runs some. Short is an error that names the
	// requirements that were not met, beside their rows, and the experiments that failed.
	List   func() cli.Sheet
	Run    func(ctx context.Context, say io.Writer, r Run) (rows cli.Sheet, short error, err error)
	Report func(ctx context.Context, dir, to string) (file string, err error)
}

// Link is a change of a link.
type Link struct {
	A, B   string
	OneWay bool
	// What is nil stays.
	Latency, RTT, Jitter *time.Duration
	Loss                 *float64
	Rate                 *int64 // bits per second, 0: no limit
	Buffer               *int64
	Reorder, Cut         *bool
}

// Run is a run of experiments.
type Run struct {
	Names []string
	Quick bool
	Seed  uint64
	// Dir gets the results; "" keeps none.
	Dir string
}

func (t *tool) labCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "verge-lab", Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "verge lab"},
		Short: "Emulate sites with real distances on this machine, and run experiments",
		Long: `Emulate sites on one Linux machine: hosts are network namespaces, links between them
have latency, jitter, loss, a rate and NAT, and real processes of Verge run in them.
It needs root, and leaves the machine's own network unchanged.`,
		Args: cobra.ArbitraryArgs, RunE: cli.Group,
	}
	cmd.AddCommand(t.labUp(), t.labDown(), t.labStatus(), t.labShell(), t.labLink(), t.labSwitch(), t.labWireGuard(),
		t.labPod(), t.labShared(), t.labList(), t.labRun(), t.labReport())
	return cmd
}

// bed is the test bed, where there can be one.
func (t *tool) bed() (*Lab, error) {
	if t.lab == nil {
		return nil, cli.Error("lab", "it needs Linux: hosts are network namespaces",
			"run it on a Linux machine, as root")
	}
	return t.lab, nil
}

func (t *tool) labUp() *cobra.Command {
	return &cobra.Command{
		Use: "up FILE", Short: "Create the hosts and links of a lab file and start what runs there",
		Args: cli.OneArg("the lab file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := t.bed()
			if err != nil {
				return err
			}
			return l.Up(cmd.Context(), t.Stderr(), args[0])
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
	return "", cli.UsageError(cmd, "%q is one argument too many: it takes %s", args[1], what)
}

func (t *tool) labDown() *cobra.Command {
	return &cobra.Command{
		Use: "down [NAME]", Short: "Remove a lab with everything in it, also after it was killed",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := optional(cmd, args, "the name of a lab")
			if err != nil {
				return err
			}
			l, err := t.bed()
			if err != nil {
				return err
			}
			return l.Down(cmd.Context(), t.Stderr(), name)
		},
	}
}

func (t *tool) labStatus() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "status [NAME]", Short: "Show hosts, addresses and links of a lab, and the emulator's own error",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := optional(cmd, args, "the name of a lab")
			if err != nil {
				return err
			}
			l, err := t.bed()
			if err != nil {
				return err
			}
			s, err := l.Status(cmd.Context(), name)
			if err != nil {
				return err
			}
			return t.Print(mode, s)
		},
	}
	cli.OutputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

func (t *tool) labShell() *cobra.Command {
	name := ""
	cmd := &cobra.Command{
		Use: "shell HOST [-- COMMAND [ARGUMENT…]]", Short: "Run a command or a shell in a host of a lab",
		Example: "  verge lab shell client -- ping -c 3 edge-1\n  verge lab shell root -- verge get workers",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || cmd.ArgsLenAtDash() == 0 || cmd.ArgsLenAtDash() > 1 {
				return cli.UsageError(cmd, "write HOST -- COMMAND")
			}
			l, err := t.bed()
			if err != nil {
				return err
			}
			command := args[1:]
			if len(command) == 0 {
				command = []string{"/bin/sh"}
				if s := t.Getenv("SHELL"); s != "" {
					command[0] = s
				}
			}
			return l.Shell(cmd.Context(), name, args[0], command)
		},
	}
	cmd.Flags().StringVar(&name, "lab", "", "name of the lab (default: the only one)")
	return cmd
}

func (t *tool) labLink() *cobra.Command {
	cmd := &cobra.Command{
		Use: "link", Short: "Change links of a lab while it runs", Args: cobra.ArbitraryArgs, RunE: cli.Group,
	}
	yes, no := true, false
	cmd.AddCommand(
		t.labSetLink(),
		t.labCutLink("cut HOST HOST", "Cut the link between two hosts", &yes),
		t.labCutLink("heal HOST HOST", "Restore the link between two hosts", &no),
	)
	return cmd
}

// twoHosts are the arguments of a change of a link.
func twoHosts(cmd *cobra.Command, args []string) (Link, error) {
	if len(args) != 2 {
		return Link{}, cli.UsageError(cmd, "give two hosts")
	}
	return Link{A: args[0], B: args[1]}, nil
}

func (t *tool) changeLink(ctx context.Context, name string, link Link) error {
	l, err := t.bed()
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
	return t.Printf("%s to %s (%s): %s", link.A, link.B, way, now)
}

func (t *tool) labCutLink(use, short string, cut *bool) *cobra.Command {
	name, oneWay := "", false
	cmd := &cobra.Command{Use: use, Short: short, RunE: func(cmd *cobra.Command, args []string) error {
		link, err := twoHosts(cmd, args)
		if err != nil {
			return err
		}
		link.Cut, link.OneWay = cut, oneWay
		return t.changeLink(cmd.Context(), name, link)
	}}
	cmd.Flags().StringVar(&name, "lab", "", "name of the lab (default: the only one)")
	cmd.Flags().BoolVar(&oneWay, "one-way", false, "only from the first to the second")
	return cmd
}

func (t *tool) labSetLink() *cobra.Command {
	var (
		name, loss, rate, buffer string
		link                     Link
		latency, rtt, jitter     time.Duration
		reorder                  bool
	)
	cmd := &cobra.Command{
		Use: "set HOST HOST", Short: "Change the link between two hosts; other settings stay",
		Example: "  verge lab link set edge-1 client --latency 30ms --loss 20%\n" +
			"  verge lab link set edge-1 client --rate 10Mbps --one-way",
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
			return cli.UsageError(cmd, "%v", err)
		}
		return t.changeLink(cmd.Context(), name, link)
	}
	fl := cmd.Flags()
	fl.StringVar(&name, "lab", "", "name of the lab (default: the only one)")
	fl.BoolVar(&link.OneWay, "one-way", false, "only from the first to the second")
	fl.DurationVar(&latency, "latency", 0, "latency of each direction")
	fl.DurationVar(&rtt, "rtt", 0, "latency of both directions together")
	fl.DurationVar(&jitter, "jitter", 0, "variation of each packet's latency, up or down")
	fl.BoolVar(&reorder, "reorder", false, "let jitter reorder packets")
	fl.StringVar(&loss, "loss", "", "share of packets lost in each direction: 20% or 0.2")
	fl.StringVar(&rate, "rate", "", "rate, as 10Mbps; 0: unlimited")
	fl.StringVar(&buffer, "buffer", "", "bytes that may wait for the rate, as 64Ki (default: 100 ms of it)")
	return cmd
}

// readLink reads what is written with a unit.
func readLink(link *Link, loss, rate, buffer string) error {
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

func (t *tool) labWireGuard() *cobra.Command {
	return &cobra.Command{
		Use: "wireguard CONFIG", Short: "Be one end of a tunnel; an experiment starts it", Hidden: true,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := t.bed()
			if err != nil {
				return err
			}
			return l.WireGuard(cmd.Context(), args[0])
		},
	}
}

func (t *tool) labPod() *cobra.Command {
	return &cobra.Command{
		Use: "pod", Short: "Be an instance that works for a drawn time; an experiment deploys it", Hidden: true,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := t.bed()
			if err != nil {
				return err
			}
			return l.Pod(cmd.Context())
		},
	}
}

func (t *tool) labShared() *cobra.Command {
	return &cobra.Command{
		Use: "shared", Short: "Be an instance whose requests share processors; an experiment deploys it", Hidden: true,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := t.bed()
			if err != nil {
				return err
			}
			return l.Shared(cmd.Context())
		},
	}
}

func (t *tool) labSwitch() *cobra.Command {
	return &cobra.Command{
		Use: "switch CONFIG SOCKET", Short: "Emulate links; a lab starts it", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := t.bed()
			if err != nil {
				return err
			}
			return l.Switch(cmd.Context(), args[0], args[1])
		},
	}
}

func (t *tool) labList() *cobra.Command {
	return t.experimentList("List experiments, and why some cannot run", func() (cli.Sheet, error) {
		l, err := t.bed()
		if err != nil {
			return nil, err
		}
		return l.List(), nil
	})
}

// experimentList is the command that lists experiments.
func (t *tool) experimentList(short string, list func() (cli.Sheet, error)) *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "list", Short: short, Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := list()
			if err != nil {
				return err
			}
			return t.Print(mode, s)
		},
	}
	cli.OutputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

func (t *tool) labRun() *cobra.Command {
	return t.experimentRun("lab", "proxymity-imbalance", "proxymity-latency",
		func(ctx context.Context, r Run) (cli.Sheet, error, error) {
			l, err := t.bed()
			if err != nil {
				return nil, nil, err
			}
			return l.Run(ctx, t.Stderr(), r)
		})
}

// experimentRun is the command of a group that runs experiments, with two of them as
// examples.
func (t *tool) experimentRun(group, one, other string,
	run func(context.Context, Run) (rows cli.Sheet, short, err error)) *cobra.Command {
	mode, r := "", Run{}
	cmd := &cobra.Command{
		Use: "run NAME…", Short: "Run experiments and compare the results with the papers",
		Long: `Run experiments and compare the results with the papers. The exit code is 1 if a row
falls short of a requirement.`,
		Example: fmt.Sprintf("  verge %s run %s\n  verge %s run %s --quick -o json", group, one, group, other),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.UsageError(cmd, "the name of an experiment is missing; verge %s list has them", group)
			}
			r.Names = args
			rows, short, err := run(cmd.Context(), r)
			if err != nil {
				return err
			}
			if err := t.Print(mode, rows); err != nil {
				return err
			}
			return short
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&r.Quick, "quick", false, "a short form, ten seconds at most for each")
	fl.Uint64Var(&r.Seed, "seed", 1, "seed of all random draws")
	fl.StringVar(&r.Dir, "dir", "", "also write results (JSON, CSV, SVG) to this directory, for verge lab report")
	cli.OutputFlag(cmd, &mode, "table", "json", "csv")
	return cmd
}

func (t *tool) labReport() *cobra.Command {
	dir, to := "", ""
	cmd := &cobra.Command{
		Use: "report", Short: "Write a Markdown report of the results of verge lab run --dir", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := t.bed()
			if err != nil {
				return err
			}
			file, err := l.Report(cmd.Context(), dir, to)
			if err != nil {
				return err
			}
			return t.Printf("%s", file)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&dir, "dir", "lab-results", "directory with the results")
	fl.StringVar(&to, "to", "", "write a brief one to this file, with the pictures in a directory beside it "+
		"(default: all rows, to report.md in the directory)")
	return cmd
}
