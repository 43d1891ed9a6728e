package descriptor

import (
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/shape"
	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/api/schema"
)

// check is one of the three kinds of checks, as far as the file gives it.
func (v *validator) check(path string, c *api.Check, s *api.Service) {
	if _, given := v.seen[path]; !given || c == nil || v.bad[path] {
		return
	}
	kind, count := "", 0
	for _, k := range schema.OneOfThese[shape.CheckType] {
		if _, given := v.seen[path+"."+k]; given {
			kind, count = k, count+1
		}
	}
	if count != 1 {
		v.complain(path, "needs exactly one of http, tcp and exec",
			"write http: {path: /}, tcp: {} or exec: {command: [program]}")
		return
	}
	switch {
	case kind == "exec" && c.Exec != nil:
		v.program(path+".exec.command", c.Exec.Command, "a check by exec runs a program")
	case kind == "http" && c.HTTP != nil:
		if p := path + ".http.path"; c.HTTP.Path == "" {
			v.complain(p, "is missing", "write path: /")
		} else if !pathRE().MatchString(c.HTTP.Path) {
			v.complain(p, words.Quote(c.HTTP.Path)+" is not a path", "begin it with / and write no spaces")
		}
		v.port(path+".http", c.HTTP.Port, s)
	case kind == "tcp" && c.TCP != nil:
		v.port(path+".tcp", c.TCP.Port, s)
	}
}

// port is the reference of a check to a port of its service.
func (v *validator) port(path, port string, s *api.Service) {
	check := enclosing(path)
	if v.spoiled(enclosing(check) + ".ports") {
		return
	}
	var names []string
	for _, p := range s.Ports {
		names = append(names, p.Name)
	}
	switch {
	case len(names) == 0:
		v.complain(path, "the service has no port to check",
			"add one to ports, or remove "+check[strings.LastIndexByte(check, '.')+1:])
	case !slices.Contains(names, port):
		v.complain(path+".port", words.Quote(port)+" is not a port of the service", "there is "+words.Either(names))
	case s.Ports[slices.Index(names, port)].Protocol == api.UDP:
		v.complain(path+".port", words.Quote(port)+" is a udp port, to which nobody can connect",
			"check another port, or write exec: {command: [program]}")
	}
}

// program is a command: a program and its arguments.
func (v *validator) program(path string, command []string, why string) {
	switch {
	case len(command) == 0:
		v.complain(path, "is missing: "+why, "write command: [program, argument]")
	case strings.TrimSpace(command[0]) == "":
		v.complain(path+"[0]", "the program has no name", "write command: [program, argument]")
	}
}
