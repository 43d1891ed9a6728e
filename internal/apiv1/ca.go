package apiv1

import "time"

// CAView is who is trusted by whom, as the serving tier knows it.
type CAView struct {
	// Authorities of the root: the current one first, and while it is replaced the
	// next one.
	Authorities []CAAuthority `json:"authorities"`
	// Rotating: the authority is being replaced. Everything that is certified leads
	// to both, and the first one is trusted until the rotation is finished.
	Rotating bool `json:"rotating"`
	// Server is when the certificate of the serving process expires.
	Server time.Time `json:"server_expires"`
	// Members are the clusters of a root, or the workers of a cluster.
	Members []CAMember `json:"members"`
	// Behind says in words who would be locked out if a rotation was finished now;
	// empty: nobody, as far as is known.
	Behind []string `json:"behind,omitempty"`
}

// CAAuthority is one certificate of the root's authority.
type CAAuthority struct {
	ID      string    `json:"id"`
	Made    time.Time `json:"made"`
	Expires time.Time `json:"expires"`
}

// CAMember is a node that trusts the authorities, or not yet.
type CAMember struct {
	Name string `json:"name"` // "cluster/edge", "worker/edge/w1"
	// Expires is when its certificate does, zero where it never said.
	Expires time.Time `json:"expires,omitzero"`
	// Current: it trusts all authorities that are, and no other.
	Current bool `json:"current"`
	// Away: it is not connected now, and what is said of it may be old.
	Away bool `json:"away,omitempty"`
	// Behind counts the workers of a cluster that are not current.
	Behind int `json:"behind,omitempty"`
}

// CARotateRequest begins to replace the root's authority, or ends that.
type CARotateRequest struct {
	Step string `json:"step" enum:"start,finish,abort" doc:"start: make the next authority; finish: retire the old one; abort: forget the next one"`
	// Force finishes although somebody would be locked out.
	Force bool `json:"force,omitempty"`
}
