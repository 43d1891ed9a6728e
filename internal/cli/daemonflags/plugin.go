package daemonflags

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/policy/place"
)

// pluginFlags register the scheduler plugins of a cluster.
type pluginFlags struct {
	urls, tokens, authorities map[string]string
	joint                     []string
}

func (p *pluginFlags) add(fl *pflag.FlagSet) {
	fl.StringToStringVar(&p.urls, "plugin", nil,
		"scheduler plugin as NAME=URL: https://…, http:// on the loopback, unix:/path, or nats: for one on the bus "+
			"(repeatable)")
	fl.StringToStringVar(&p.tokens, "plugin-token-file", nil,
		"file with the token for a plugin, as NAME=FILE (repeatable)")
	fl.StringToStringVar(&p.authorities, "plugin-ca", nil,
		"file (PEM) with the authorities of a plugin's certificate, as NAME=FILE (repeatable; default: the machine's)")
	fl.StringSliceVar(&p.joint, "plugin-joint", nil,
		"name of a plugin that decides for all waiting services at once (repeatable)")
}

// defaultScheduler says whether a cluster with these plugins can have a scheduler as its
// default.
func defaultScheduler(name string, plugins []plugin.Config) error {
	if of, ok := strings.CutPrefix(name, "plugin:"); ok {
		if !slices.ContainsFunc(plugins, func(c plugin.Config) bool { return c.Name == of }) {
			return errMustBe("--scheduler", strconv.Quote(name),
				"plugin: and the name of a plugin that --plugin registers")
		}
		return nil
	}
	if !slices.Contains(place.Schedulers(), name) {
		return errMustBe("--scheduler", strconv.Quote(name),
			"one of "+strings.Join(place.Schedulers(), ", ")+", or plugin:NAME")
	}
	return nil
}

// settle returns the plugins in the order of their names.
func (p *pluginFlags) settle() ([]plugin.Config, error) {
	named := func(flag string, names []string) error {
		for _, name := range names {
			if _, ok := p.urls[name]; !ok {
				return errMustBe(flag, strconv.Quote(name), "the name of a plugin, which --plugin registers")
			}
		}
		return nil
	}
	err := firstError(
		named("--plugin-token-file", slices.Sorted(maps.Keys(p.tokens))),
		named("--plugin-ca", slices.Sorted(maps.Keys(p.authorities))), named("--plugin-joint", p.joint))
	if err != nil {
		return nil, err
	}
	var out []plugin.Config
	for _, name := range slices.Sorted(maps.Keys(p.urls)) {
		if err := labels("--plugin", []string{name}); err != nil {
			return nil, err
		}
		if _, err := plugin.CheckURL(p.urls[name]); err != nil {
			return nil, fmt.Errorf("--plugin %s: %w", name, err)
		}
		if p.urls[name] == plugin.OnBus && p.tokens[name]+p.authorities[name] != "" {
			return nil, fmt.Errorf("--plugin %s: a plugin on the bus has an identity of the cluster (verge token "+
				"create --plugin %s) instead of a token and authorities", name, name)
		}
		out = append(out, plugin.Config{
			Name: name, URL: p.urls[name], TokenFile: p.tokens[name], CAFile: p.authorities[name],
			Joint: slices.Contains(p.joint, name),
		})
	}
	return out, nil
}
