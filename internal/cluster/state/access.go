package state

import (
	"github.com/verge-edge/verge/internal/access"
)

// MaySee says whether who may see an application.
func MaySee(m *Model, who access.Who, app string) bool {
	return access.May(who, access.See, access.Object{Kind: access.Application, Name: app, Namespace: m.Namespace(app),
		Cluster: m.Name, Site: true}) == nil
}
