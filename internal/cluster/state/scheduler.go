package state

import (
	"cmp"
	"strings"

	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// SchedulerPlugin as in a descriptor.
const SchedulerPlugin = "plugin"

// PluginDefault begins the default of a cluster that is a plugin; its name follows.
const PluginDefault = SchedulerPlugin + ":"

// Scheduler of a service: its own, or that of the cluster.
func Scheduler(m *Model, s *wire.Share) string {
	name, _ := SchedulerOf(m, s)
	return name
}

// SchedulerOf is scheduler, with the name of the plugin where that is what it is.
func SchedulerOf(m *Model, s *wire.Share) (name, plugin string) {
	if s.Spec.Scheduler != "" {
		return s.Spec.Scheduler, s.Spec.Plugin
	}
	if plugin, ok := strings.CutPrefix(m.Scheduler, PluginDefault); ok {
		return SchedulerPlugin, plugin
	}
	return cmp.Or(m.Scheduler, place.ROM), ""
}
