package people

import (
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/record"
)

// Kinds of records of users, and of what they did.
func Kinds() []records.Kind {
	return []records.Kind{
		{Prefix: keyUser, Fate: records.Aside, Read: records.Reads[record.User],
			Drop: "the user is unknown, and has no roles: create it again (verge user create)"},
		{Prefix: keyToken, Fate: records.Aside, Read: records.Reads[tokenRecord],
			Drop: "the token lets nobody in: verge user token makes its user another one"},
		{Prefix: keyAudit, Fate: records.Aside, Security: true, Read: records.Reads[apiv1.AuditEntry],
			Drop: "the entry is missing from the audit log"},
	}
}
