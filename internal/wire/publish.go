package wire

// Values of Standing.Hosts and Standing.Ports besides names and numbers.
const (
	// PublishAny is the default: anything free, not reserved for another namespace, and not a
	// name of the machine itself.
	PublishAny  = "any"
	PublishNone = "none"
)

// Publish is what a namespace may publish at the gateways. The root sends it to the clusters
// for each namespace that has one.
type Publish struct {
	V     int    `json:"v"`
	Hosts string `json:"hosts,omitempty"` // as Standing.Hosts
	Ports string `json:"ports,omitempty"` // as Standing.Ports
}

// Publish is the part of a standing that is about the gateways; nil if there is none.
func (s Standing) Publish() *Publish {
	if s.Hosts == "" && s.Ports == "" {
		return nil
	}
	return &Publish{V: Version, Hosts: s.Hosts, Ports: s.Ports}
}

// Claims is a standing without the part that Publish returns.
func (s Standing) Claims() Standing {
	s.Hosts, s.Ports = "", ""
	return s
}
