package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/spf13/cobra"
)

// StartedBy is the environment variable in which a program that verge NAME has started finds
// the path of verge.
const StartedBy = "VERGE_BIN"

// extensionName is what a program verge-NAME may be called.
var extensionName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// become replaces this process by another program, which so gets its signals and has its exit
// code.
func become(program string, args, env []string) error {
	return syscall.Exec(program, append([]string{program}, args...), env)
}

// addExtension makes verge NAME start the program verge-NAME beside verge or in the PATH, as
// kubectl and git start theirs, where NAME is no command.
func (a *app) addExtension(root *cobra.Command, args []string) {
	// Cobra adds help and completion when the command line is run.
	if len(args) == 0 || !extensionName.MatchString(args[0]) || args[0] == "help" || args[0] == "completion" {
		return
	}
	if cmd, _, err := root.Find(args); err == nil && cmd != root {
		return
	}
	if path, _ := findExtension(args[0]); path != "" {
		root.AddCommand(a.extension(args[0], "", args[0]))
	}
}

// extension is the command that starts a program verge-NAME with some arguments before those
// that are given.
func (a *app) extension(name, short, program string, before ...string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { return a.extend(name, program, append(before, args...)) },
	}
}

func (a *app) extend(name, program string, args []string) error {
	path, looked := findExtension(program)
	if path == "" {
		return &userError{
			what: name, why: fmt.Sprintf("the program verge-%s is neither %s nor in the PATH", program, looked),
			next: "install the package verge-" + program + ", or make build in a clone of the repository",
		}
	}
	env := os.Environ()
	if self, err := os.Executable(); err == nil {
		env = append(env, StartedBy+"="+self)
	}
	if err := a.opts.Exec(path, args, env); err != nil {
		return &userError{what: name, why: fmt.Sprintf("start %s: %v", path, err)}
	}
	return nil
}

// findExtension is the program verge-NAME, "" if there is none, and where it would be beside
// this one.
func findExtension(name string) (path, beside string) {
	program := "verge-" + name
	if self, err := os.Executable(); err == nil {
		beside = filepath.Join(filepath.Dir(self), program)
		if path, err := exec.LookPath(beside); err == nil {
			return path, beside
		}
		// verge may be a link to where both are installed.
		if real, err := filepath.EvalSymlinks(self); err == nil && real != self {
			if path, err := exec.LookPath(filepath.Join(filepath.Dir(real), program)); err == nil {
				return path, beside
			}
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", beside
	}
	return path, beside
}

func (a *app) labCommand() *cobra.Command {
	return a.extension("lab", "Emulate sites with real distances on this machine, and run experiments (verge-lab)",
		"lab")
}

func (a *app) simCommand() *cobra.Command {
	return a.extension("sim", "Run experiments in virtual time (verge-lab)", "lab", "sim")
}
