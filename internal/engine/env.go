package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

// surroundings are what an instance is told about itself.
type surroundings struct {
	path, cluster, worker, engine string
	listen                        string // the address that it is to listen on
	objects                       string // URL of its objects, "" where they cannot be had
	work, tmp                     string
	ports                         map[string]int
	devices                       []wire.DeviceNode // of the worker
	// addrs of the services of the application: service → port name → host:port.
	addrs map[string]map[string]string
}

// base are the variables that Verge sets for the process of an order, to which
// the descriptor may refer and add.
func base(o *wire.Order, s surroundings) map[string]string {
	env := map[string]string{
		"VERGE_APP":       o.App,
		"VERGE_SERVICE":   o.Service,
		state.EnvInstance: o.ID,
		"VERGE_ORDINAL":   strconv.Itoa(o.Ordinal),
		"VERGE_WORKER":    s.worker,
		"VERGE_CLUSTER":   s.cluster,
		"VERGE_LISTEN":    s.listen,
		state.EnvEngine:   s.engine,

		"VERGE_NAMESPACE": wire.OrderNamespace(o),
	}
	if s.objects != "" {
		env["VERGE_OBJECTS"] = s.objects
	}
	if j := o.Job; j != nil {
		env["VERGE_JOB_INDEX"], env["VERGE_JOB_COMPLETIONS"] = strconv.Itoa(j.Index), strconv.Itoa(j.Completions)
		env["VERGE_JOB_RUN"] = strconv.FormatUint(j.Run, 10)
		env["VERGE_JOB_TIME"] = ""
		if !j.Scheduled.IsZero() {
			env["VERGE_JOB_TIME"] = j.Scheduled.UTC().Format(time.RFC3339)
		}
	}
	maps.Copy(env, deviceEnv(o, s.devices))
	if !state.Sandboxed(o) { // a container has these of its image, and a function none
		env["PATH"], env["HOME"], env["TMPDIR"] = s.path, s.work, s.tmp
	}
	for i := range o.Spec.Ports {
		name := state.PortName(&o.Spec.Ports[i])
		n := strconv.Itoa(s.ports[name])
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
			if addr, ok := s.addrs[service][name]; ok {
				env[api.EnvName(service+"-"+name)] = addr
			}
		}
	}
	for service, ports := range o.Peers {
		if len(ports) == 0 {
			continue
		}
		if addr, ok := s.addrs[service][state.PortName(&ports[0])]; ok {
			env[api.EnvName(service)] = addr
		}
	}
	return env
}

// listenOn is the address that an instance in a network namespace is to listen on; ""
// is the machine's, where nobody else is to reach it.
func listenOn(netns string) string {
	if netns == "" {
		return "127.0.0.1"
	}
	return "::"
}

// fillPeers gives each order the ports of the services of its application, which
// the routes have of every service.
func fillPeers(o *wire.EngineOrders) {
	by := map[string]map[string][]api.Port{}
	for i := range o.Routes {
		r := &o.Routes[i]
		if by[r.App] == nil {
			by[r.App] = map[string][]api.Port{}
		}
		by[r.App][r.Service] = r.Ports
	}
	for i := range o.Orders {
		if o.Orders[i].Peers == nil {
			o.Orders[i].Peers = by[o.Orders[i].App]
		}
	}
}

// resolve returns what the process of an order is started with.
func resolve(o *wire.Order, s surroundings) (argv []string, vars map[string]string, err error) {
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

// environ writes env as a process gets it, sorted.
func environ(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
