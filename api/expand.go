package api

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/api/pattern"
)

// MaxExpandedBytes bounds the command, arguments and environment of an instance
// after expansion. Linux refuses to start a program with more than 2 MiB of them.
const MaxExpandedBytes = 1 << 20

// EnvName is the variable in which the instances of an application find the
// address (host:port) of the first port of a service: VERGE_<SERVICE>_ADDR.
// Names of services are DNS labels, so no two of them share a variable. Each
// port has its own too: that of EnvName(service + "-" + port).
func EnvName(service string) string { return "VERGE_" + envCase(service) + "_ADDR" }

// PortEnvName is the variable in which a process instance finds the number of
// its port of that name: PORT_<NAME>.
func PortEnvName(port string) string { return "PORT_" + envCase(port) }

func envCase(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Expand replaces ${VAR} by what env says of VAR, and $$ by a dollar. A dollar
// before anything else stays: $PORT is not expanded, so that shell commands can
// use their own variables. The error names a reference that is malformed or that
// env does not know, or says that the result exceeds MaxExpandedBytes.
func Expand(s string, env func(string) (string, bool)) (string, error) {
	if !strings.Contains(s, "$") {
		return s, nil
	}
	var b strings.Builder
	err := scan(s, func(literal, name string) error {
		b.WriteString(literal)
		if name != "" {
			value, ok := env(name)
			if !ok {
				return fmt.Errorf("${%s}: there is no variable of this name", name)
			}
			b.WriteString(value)
		}
		if b.Len() > MaxExpandedBytes {
			return errTooLong
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return b.String(), nil
}

var errTooLong = errors.New("is longer than 1 MiB after the replacement of ${…}")

// Resolve expands the command, arguments and environment of an instance. Base
// holds the variables that Verge sets. Values of Env are expanded
// from base alone, so that their order does not matter and none can refer to
// itself; command and arguments from base with Env on top, which is also the
// environment that is returned. The error names the part.
func (s *Service) Resolve(base map[string]string) (argv []string, env map[string]string, err error) {
	total := 0
	expand := func(what, text string, from map[string]string) (string, error) {
		out, err := Expand(text, func(name string) (string, bool) { v, ok := from[name]; return v, ok })
		if total += len(out); err == nil && total > MaxExpandedBytes {
			err = errTooLong
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", what, err)
		}
		return out, nil
	}
	env = maps.Clone(base)
	if env == nil {
		env = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if env[name], err = expand("env."+name, s.Env[name], base); err != nil {
			return nil, nil, err
		}
	}
	for _, part := range []struct {
		name string
		list []string
	}{{"command", s.Command}, {"args", s.Args}} {
		for i, text := range part.list {
			out, err := expand(fmt.Sprintf("%s[%d]", part.name, i), text, env)
			if err != nil {
				return nil, nil, err
			}
			argv = append(argv, out)
		}
	}
	return argv, env, nil
}

var referRE = pattern.Lazy(pattern.Reference)

// scan cuts s into literal text and the references that follow it; the last
// piece has no name.
func scan(s string, piece func(literal, name string) error) error {
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i == len(s)-1 {
			return piece(s, "")
		}
		switch s[i+1] {
		case '$':
			if err := piece(s[:i+1], ""); err != nil {
				return err
			}
			s = s[i+2:]
		case '{':
			name, rest, closed := strings.Cut(s[i+2:], "}")
			if !closed {
				return &ValueError{"the reference ${ has no end", "close it with }, or write $${ for the text itself"}
			}
			if !referRE().MatchString(name) {
				return &ValueError{words.Quote("${"+name+"}") + " is not a reference to a variable",
					"write ${NAME} with letters, digits and _, or $${ for the text itself"}
			}
			if err := piece(s[:i], name); err != nil {
				return err
			}
			s = rest
		default:
			if err := piece(s[:i+1], ""); err != nil {
				return err
			}
			s = s[i+1:]
		}
	}
}

// References returns the names of the variables that s refers to.
func References(s string) (names []string, err error) {
	err = scan(s, func(_, name string) error {
		if name != "" {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}
