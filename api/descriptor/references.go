package descriptor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
)

// instanceVariables are those that every instance has of Verge.
var instanceVariables = []string{
	"VERGE_APP", "VERGE_SERVICE", "VERGE_INSTANCE", "VERGE_ORDINAL", "VERGE_WORKER", "VERGE_CLUSTER", "VERGE_NAMESPACE",
	"VERGE_LISTEN", "VERGE_OBJECTS",
}

// jobVariables are those that an instance of a job has besides.
var jobVariables = []string{"VERGE_JOB_INDEX", "VERGE_JOB_COMPLETIONS", "VERGE_JOB_RUN", "VERGE_JOB_TIME"}

// machineVariables are the others; a worker passes on nothing else of its own
// environment. The values of env may replace them, and refer to what they were.
var machineVariables = []string{"PATH", "HOME", "TMPDIR"}

// templates checks the ${VAR} of a service.
func (v *validator) templates(path string, s *api.Service) {
	for i, text := range s.Command {
		v.template(fmt.Sprintf("%s.command[%d]", path, i), text, path, s, false)
	}
	for i, text := range s.Args {
		v.template(fmt.Sprintf("%s.args[%d]", path, i), text, path, s, false)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		v.template(where{path: path + ".files"}.entry(name).path+".content", s.Files[name].Content, path, s, false)
	}
	for _, check := range []struct {
		name string
		*api.Check
	}{{"startup", s.Startup}, {"readiness", s.Readiness}, {"liveness", s.Liveness}} {
		if check.Check == nil || check.Exec == nil {
			continue
		}
		for i, text := range check.Exec.Command {
			v.template(fmt.Sprintf("%s.%s.exec.command[%d]", path, check.name, i), text, path, s, false)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		v.template(where{path: path + ".env"}.entry(name).path, s.Env[name], path, s, true)
	}
}

func (v *validator) template(path, text, service string, s *api.Service, inEnv bool) {
	names, err := api.References(text)
	var syntax *api.ValueError
	if errors.As(err, &syntax) {
		what := syntax.What
		if ofEnv(path) {
			what = "contains ${ that begins no reference to a variable" // the text may be secret
		}
		v.complain(path, what, syntax.Remedy)
		return
	}
	for _, name := range names {
		_, ofEnv := s.Env[name]
		_, secret := s.EnvSecrets[name]
		switch {
		case secret:
			v.complain(path,
				fmt.Sprintf("${%s} is a secret, which would be shown to everybody who can list processes or read files", name),
				"let the program read the variable itself, or give it the secret as a file")
		case slices.Contains(instanceVariables, name):
		case slices.Contains(jobVariables, name):
			if s.Job == nil {
				v.complain(path, fmt.Sprintf("${%s} is of jobs, and the service is none", name),
					"write job: {} for the service, or remove it")
			}
		case strings.HasPrefix(name, "VERGE_"):
			v.serviceReference(path, name)
		case ownVariable(name):
			v.portReference(path, name, service, s)
		case slices.Contains(machineVariables, name) && s.Runtime == api.Container && !ofEnv:
			v.complain(path, fmt.Sprintf("${%s} is of the machine, a container has that of its image", name),
				"write the value, or set it in env")
		case slices.Contains(machineVariables, name) && s.Runtime == api.Wasm && !ofEnv:
			v.complain(path, fmt.Sprintf("${%s} is of the machine, a function has none", name),
				"write the value, or set it in env")
		case slices.Contains(machineVariables, name), ofEnv && !inEnv:
		case ofEnv:
			v.complain(path, fmt.Sprintf("${%s} is a variable of env, which the values of env cannot refer to", name),
				"write its value here, or refer to it in command or args")
		case !v.bad[service+".env"] && !v.bad[service+".env_secrets"]:
			v.complain(path, fmt.Sprintf("${%s} is set neither by env nor by Verge", name), v.remedyVariable(name, s, inEnv))
		}
	}
}

// remedyVariable says what to write instead of a variable that nobody sets.
func (v *validator) remedyVariable(name string, s *api.Service, inEnv bool) string {
	known := append(slices.Clone(machineVariables), "PORT")
	if !inEnv {
		known = append(known, slices.Sorted(maps.Keys(s.Env))...)
	}
	if near := nearest(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	if inEnv {
		return "write the value, or $${" + name + "} for the text itself"
	}
	return "add it to env, or write $${" + name + "} for the text itself"
}

// serviceReference checks a ${VERGE_<SERVICE>_ADDR} or
// ${VERGE_<SERVICE>_<PORT>_ADDR}.
func (v *validator) serviceReference(path, name string) {
	if v.services == nil {
		v.indexServices()
	}
	other, exists := v.services[name]
	at := where{}.field("services").entry(other).path
	switch {
	case exists && (len(v.app.Services[other].Ports) > 0 || v.spoiled(at+".ports")):
	case exists:
		v.complain(path, fmt.Sprintf("${%s}: the service %s has no port", name, other), "give it one: ports: [{name: tcp}]")
	case !strings.HasSuffix(name, "_ADDR"):
		v.complain(path, fmt.Sprintf("${%s} is not a variable of Verge", name),
			"there is "+words.Either(append(slices.Clone(instanceVariables), v.addresses...)))
	default:
		remedy := "no service of this application has a port"
		if len(v.addresses) > 0 {
			remedy = "there is " + words.Either(v.addresses)
		}
		if near := nearest(name, v.addresses); near != "" {
			remedy = "did you mean " + near + "?"
		}
		v.complain(path, fmt.Sprintf("${%s} refers to a service or port that this application does not have", name), remedy)
	}
}

// indexServices fills services and addresses.
func (v *validator) indexServices() {
	v.services = map[string]string{}
	for name, s := range v.app.Services {
		for _, p := range s.Ports {
			v.services[api.EnvName(name+"-"+p.Name)] = name
		}
	}
	// A service a-b comes before the port b of the service a, as it does in the
	// environment of an instance.
	for _, name := range v.app.ServiceNames() {
		v.services[api.EnvName(name)] = name
		if len(v.app.Services[name].Ports) > 0 {
			v.addresses = append(v.addresses, api.EnvName(name))
		}
	}
}

// portReference checks a ${PORT} or ${PORT_<NAME>}.
func (v *validator) portReference(path, name, service string, s *api.Service) {
	if v.spoiled(service + ".ports") {
		return
	}
	if len(s.Ports) == 0 {
		v.complain(path, fmt.Sprintf("${%s}: the service has no port", name), "give it one: ports: [{name: http}]")
		return
	}
	if name == "PORT" {
		return
	}
	known := []string{"PORT"}
	for _, p := range s.Ports {
		known = append(known, api.PortEnvName(p.Name))
	}
	if !slices.Contains(known, name) {
		v.complain(path, fmt.Sprintf("${%s} refers to a port that the service does not have", name),
			"there is "+words.Either(known))
	}
}
