package people

import (
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

// Kinds of records of users, and of what they did.
func Kinds() []records.Kind {
	return []records.Kind{
		{Prefix: keyUser, Fate: records.Aside, Read: records.Reads[wire.User], Drop: "the user is not known any more, and has no roles: verge user create makes it anew"},
		{Prefix: keyToken, Fate: records.Aside, Read: records.Reads[tokenRecord], Drop: "the token lets nobody in: verge user token makes its user another one"},
		{Prefix: keyAudit, Fate: records.Aside, Security: true, Read: records.Reads[wire.AuditEntry], Drop: "the audit log does not show any more that there was an entry"},
	}
}
