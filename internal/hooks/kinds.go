package hooks

import (
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

// Kinds of records of hooks.
func Kinds() []records.Kind {
	return []records.Kind{
		{Prefix: keyHook, Fate: records.Stops, Security: true, Read: records.Reads[wire.Hook], Drop: "the hook is not told anything any more; one that has to agree to changes is not asked: make it again (verge hook create) before others change something"},
		{Prefix: keyQueue, Fate: records.Aside, Read: records.Reads[wire.HookItem], Drop: "one notice is not delivered"},
		{Prefix: keyMark, Fate: records.Aside, Read: records.Reads[wire.HookMark], Drop: "what was told of one subject may be told again"},
	}
}
