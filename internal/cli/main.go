package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	// cobra: commands, flags, completions for four shells; the reflexes of kubectl.
	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/cli/daemonflags"
	"github.com/verge-edge/verge/internal/engineapi"
)

// Exit codes.
const (
	exitOK         = 0
	exitError      = 1
	exitIncomplete = 2
)

// Options of Main.
type Options struct {
	// Version of this build; "" is "unknown".
	Version string
	// Daemons run the roles. One that is nil is refused with an error.
	Daemons daemonflags.Daemons
	// Records works on stores of roles that do not run; nil where there are no roles.
	Records *Records
	// Exec becomes another program, with arguments after its own name; nil really does.
	Exec func(program string, args, env []string) error
	// JoinPlugin makes the identity of a scheduler plugin.
	JoinPlugin func(ctx context.Context, j PluginJoin) (PluginIdentity, error)
	// KeepPlugin renews one whenever that is due, until ctx ends.
	KeepPlugin func(ctx context.Context, k PluginKeep) error
	// Images opens the images of the containerd at an address of this machine; "" is
	// the usual one.
	Images func(address string) ImageStore
	// Now is the clock that ages and waiting times are reckoned by; nil is
	// time.Now. Its location is that of the times printed.
	Now func() time.Time
	// Sleep waits for d or until ctx ends; nil really does.
	Sleep func(ctx context.Context, d time.Duration) error
	// SealWork is the cost of a backup's passphrase, see backup.Seal.Work; tests take
	// little.
	SealWork int
	// Getenv reads the environment; nil is os.Getenv.
	Getenv func(string) string
	// ConfigDir has the files with settings of daemons; "" is /etc/verge, or
	// without root rights the folder verge of the user's configuration.
	ConfigDir string
}

// app is one run of the command line.
type app struct {
	opts Options
	in   io.Reader
	out  io.Writer
	err  io.Writer

	context string      // --context
	noticed atomic.Bool // the server's notice was shown
	noting  sync.Mutex  // taken to write to err
	local   bool        // --local
}

// Main runs the command line args (without the program's name) and returns the
// exit code. Ctx ends waiting.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, o Options) int {
	a := newApp(stdin, stdout, stderr, o)
	root := a.rootCommand()
	a.addExtension(root, args)
	return a.execute(ctx, root, args)
}

// newApp fills in what o leaves out.
func newApp(stdin io.Reader, stdout, stderr io.Writer, o Options) *app {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Exec == nil {
		o.Exec = become
	}
	if o.Version == "" {
		o.Version = "unknown"
	}
	return &app{opts: o, in: stdin, out: stdout, err: stderr}
}

// execute runs a command line and returns the exit code.
func (a *app) execute(ctx context.Context, root *cobra.Command, args []string) int {
	// Cobra would take nil to mean the arguments of the process.
	root.SetArgs(append([]string{}, args...))
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var remote *remoteExit
	if errors.As(err, &remote) {
		return remote.code
	}
	a.printError(err)
	var lost *lostError
	if errors.As(err, &lost) {
		return exitLost
	}
	var incomplete *incompleteError
	var trouble *troubleError
	if errors.As(err, &incomplete) || errors.As(err, &trouble) {
		return exitIncomplete
	}
	return exitError
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Commands is the tree of commands, for whoever writes a manual of them; Main is what
// runs one.
func Commands(o Options) *cobra.Command {
	root := (&app{opts: o}).rootCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "verge",
		Short:         "Run applications on the edge: root, clusters, workers, and the client of all three",
		Version:       a.opts.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          group,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(cmd, "%v", err)
	})
	root.PersistentFlags().StringVar(&a.context, "context", "",
		"name or file of the context to use (environment: VERGE_CONTEXT)")
	root.AddGroup(&cobra.Group{ID: "client", Title: "Client commands:"}, &cobra.Group{ID: "daemon", Title: "Daemons:"})
	for _, c := range []*cobra.Command{
		a.applyCommand(), a.planCommand(), a.diffCommand(), a.rolloutCommand(), a.validateCommand(), a.importCommand(),
		a.schemaCommand(), a.getCommand(), a.describeCommand(), a.deleteCommand(),
		a.scaleCommand(), a.restartCommand(), a.jobCommand(), a.cordonCommand(), a.uncordonCommand(), a.removeCommand(),
		a.revokeCommand(), a.caCommand(),
		a.drainCommand(), a.upgradeCommand(),
		a.logsCommand(), a.statusCommand(), a.eventsCommand(), a.explainCommand(), a.tokenCommand(), a.contextCommand(),
		a.versionCommand(), a.configCommand(), a.doctorCommand(),
		a.namespaceCommand(), a.secretCommand(), a.hookCommand(), a.objectCommand(), a.fnCommand(), a.userCommand(),
		a.volumeCommand(), a.routeCommand(), a.netcheckCommand(), a.whoamiCommand(), a.auditCommand(),
		a.localCommand(), a.backupCommand(), a.restoreCommand(), a.recoveryCommand(), a.recordsCommand(),
		a.execCommand(), a.portForwardCommand(), a.cpCommand(), a.supportBundleCommand(), a.topCommand(),
		a.waitCommand(), a.imageCommand(), a.labCommand(), a.simCommand(), a.autoscaleCommand(), a.profileCommand(),
		a.pluginCommand(),
	} {
		c.GroupID, c.SuggestFor = "client", otherNames[c.Name()]
		root.AddCommand(c)
	}
	for _, c := range a.daemonCommands() {
		c.GroupID = "daemon"
		root.AddCommand(c)
	}
	a.addCompletions(root)
	return root
}

// otherNames are what kubectl, docker, nomad and systemctl call a command.
var otherNames = map[string][]string{
	"apply": {"create", "run", "deploy", "up", "patch", "edit"}, "delete": {"rm", "down", "kill"},
	"get":      {"ps", "ls", "list"},
	"describe": {"inspect", "show"}, "top": {"stats"}, "status": {"info", "cluster-info"}, "exec": {"attach", "ssh"},
	"context": {"login"}, "restart": {"start"}, "rollout": {"rollback", "undo", "history"}, "import": {"convert"},
}

// group is the RunE of a command that only has subcommands.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	next := "see: " + cmd.CommandPath() + " --help"
	// Within two letters of a word of three is nearly every short command.
	cmd.SuggestionsMinimumDistance = min(2, len(args[0])/2)
	const most = 3 // of more, none is likely to be meant
	if s := cmd.SuggestionsFor(args[0]); len(s) > 0 && len(s) <= most {
		next = "did you mean " + strings.Join(s, " or ") + "? else " + next
	}
	return &userError{what: "unknown command", why: fmt.Sprintf("%s %s", cmd.CommandPath(), args[0]), next: next}
}

// userError is an error made here: what, why, next step.
type userError struct{ what, why, next string }

// Error has the same form as a wire.Problem's.
func (e *userError) Error() string {
	s := e.what
	if e.why != "" {
		s += ": " + e.why
	}
	if e.next != "" {
		s += "\n  → " + e.next
	}
	return s
}

func usageError(cmd *cobra.Command, format string, args ...any) error {
	// "verge" is before every error already.
	what := strings.TrimPrefix(cmd.CommandPath(), "verge ")
	return &userError{what: what, why: fmt.Sprintf(format, args...), next: "see: " + cmd.CommandPath() + " --help"}
}

// incompleteError is for what was accepted but is not complete: exit code 2.
type incompleteError struct{ userError }

// oneArg wants exactly one argument, and says what belongs there.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < 1 {
			return usageError(cmd, "%s is missing", what)
		}
		if len(args) > 1 {
			return usageError(cmd, "%q is one argument too many: it takes %s", args[1], what)
		}
		return nil
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError(cmd, "%q is one argument too many: it takes none", args[0])
	}
	return nil
}

func (a *app) printError(err error) {
	// Much of it may be what a server, or a program through it, has said.
	a.notef("%s %s", a.paint(a.err, red, "verge:"), cleanLines(err.Error()))
}

// notice shows what the server has to say beside its answers, once.
func (a *app) notice(text string) {
	if !a.noticed.Swap(true) {
		a.notef("%s %s", a.paint(a.err, yellow, "note:"), clean(text))
	}
}

// notef writes a line to standard error.
func (a *app) notef(format string, args ...any) {
	a.noting.Lock()
	defer a.noting.Unlock()
	// There is nowhere to report that standard error is closed.
	_, _ = fmt.Fprintf(a.err, format+"\n", args...)
}

// noteText writes a text of others to standard error.
func (a *app) noteText(text string) { a.notef("%s", clean(text)) }

// printf writes a line to standard output.
func (a *app) printf(format string, args ...any) error {
	if _, err := fmt.Fprintf(a.out, format+"\n", args...); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

func (a *app) versionCommand() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version of this program and of the server of the context", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.version(cmd.Context(), mode)
		},
	}
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

func (a *app) version(ctx context.Context, mode string) error {
	v := struct {
		Client string `json:"client"`
		Server string `json:"server,omitempty"`
		// Handover is for an engine that is to hand over to this program.
		Handover int `json:"handover"`
	}{Client: a.opts.Version, Handover: engineapi.Handover}
	c, err := a.client()
	if err == nil {
		defer c.Close()
		server, serr := c.System.Version(ctx)
		if err = serr; err == nil {
			v.Server = server.Version
		}
	}
	if mode == "json" || mode == "yaml" {
		return a.encode(mode, v)
	}
	if werr := a.printf("verge %s", v.Client); werr != nil {
		return werr
	}
	if err != nil {
		// A version without a server is no failure.
		a.notef("server: %s", clean(strings.SplitN(err.Error(), "\n", 2)[0]))
		return nil
	}
	return a.printf("server %s at %s", clean(v.Server), c.Host())
}
