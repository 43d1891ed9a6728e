package environment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// Surroundings are what an instance learns about itself.
type Surroundings struct {
	Path, Cluster, Worker, Engine string
	Listen                        string // the address that it is to listen on
	Objects                       string // URL of its objects, "" where they cannot be had
	Work, Tmp                     string
	Ports                         map[string]int
	Devices                       []engineapi.DeviceNode // of the worker
	// Addrs of the services of the application: service → port name → host:port.
	Addrs map[string]map[string]string
}

// base are the variables that Verge sets for the process of an order, to which
// the descriptor may refer and add.
func base(o *wire.Order, s Surroundings) map[string]string {
	env := map[string]string{
		"VERGE_APP":       o.App,
		"VERGE_SERVICE":   o.Service,
		state.EnvInstance: o.ID,
		"VERGE_ORDINAL":   strconv.Itoa(o.Ordinal),
		"VERGE_WORKER":    s.Worker,
		"VERGE_CLUSTER":   s.Cluster,
		"VERGE_LISTEN":    s.Listen,
		state.EnvEngine:   s.Engine,

		"VERGE_NAMESPACE": wire.OrderNamespace(o),
	}
	if s.Objects != "" {
		env["VERGE_OBJECTS"] = s.Objects
	}
	if j := o.Job; j != nil {
		env["VERGE_JOB_INDEX"], env["VERGE_JOB_COMPLETIONS"] = strconv.Itoa(j.Index), strconv.Itoa(j.Completions)
		env["VERGE_JOB_RUN"] = strconv.FormatUint(j.Run, 10)
		env["VERGE_JOB_TIME"] = ""
		if !j.Scheduled.IsZero() {
			env["VERGE_JOB_TIME"] = j.Scheduled.UTC().Format(time.RFC3339)
		}
	}
	maps.Copy(env, deviceEnv(o, s.Devices))
	if !state.Sandboxed(o) { // a container has these of its image, and a function none
		env["PATH"], env["HOME"], env["TMPDIR"] = s.Path, s.Work, s.Tmp
	}
	for i := range o.Spec.Ports {
		name := state.PortName(&o.Spec.Ports[i])
		n := strconv.Itoa(s.Ports[name])
		if i == 0 {
			env["PORT"] = n
		}
		env[api.PortEnvName(name)] = n
	}
	// First the single ports, VERGE_<SERVICE>_<PORT>_ADDR, then the services: the
	// port "b" of service "a" must not hide the service "a-b".
	for service, ports := range o.Peers {
		for i := range ports {
			name := state.PortName(&ports[i])
			if addr, ok := s.Addrs[service][name]; ok {
				env[api.EnvName(service+"-"+name)] = addr
			}
		}
	}
	for service, ports := range o.Peers {
		if len(ports) == 0 {
			continue
		}
		if addr, ok := s.Addrs[service][state.PortName(&ports[0])]; ok {
			env[api.EnvName(service)] = addr
		}
	}
	return env
}

// ListenAddress is the address that an instance in a network namespace listens on; "" is the
// network of the machine, where it must not be reached from outside.
func ListenAddress(netns string) string {
	if netns == "" {
		return "127.0.0.1"
	}
	return "::"
}

// Resolve returns what the process of an order is started with.
func Resolve(o *wire.Order, s Surroundings) (argv []string, vars map[string]string, err error) {
	for _, name := range []string{state.EnvEngine, state.EnvInstance, state.EnvExec} {
		if _, ok := o.Spec.Env[name]; ok {
			return nil, nil, fmt.Errorf("env.%s is set by Verge itself; give it another name in the descriptor", name)
		}
	}
	argv, vars, err = o.Spec.Resolve(base(o, s))
	if err != nil {
		return nil, nil, err
	}
	if state.RuntimeOf(o) == api.Wasm { // its module is no argument, but its name is the first
		argv = append([]string{o.Service}, argv...)
	}
	if (len(argv) == 0 || argv[0] == "") && (state.RuntimeOf(o) != api.Container || len(o.Spec.Command) > 0) {
		return nil, nil, errors.New("command: it is empty once its variables are filled in")
	}
	return argv, vars, nil
}

// List writes env as a process gets it, sorted.
func List(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// Expand fills in the variables of a command.
func Expand(command, env []string) ([]string, error) {
	lookup := func(name string) (string, bool) {
		for _, kv := range env {
			if value, ok := strings.CutPrefix(kv, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
	out := make([]string, len(command))
	for i, part := range command {
		var err error
		if out[i], err = api.Expand(part, lookup); err != nil {
			return nil, fmt.Errorf("command[%d]: %w", i, err)
		}
	}
	return out, nil
}
