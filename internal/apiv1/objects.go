package apiv1

import "time"

// ObjectView is an object as it is shown.
type ObjectView struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Size      int64     `json:"size" doc:"bytes"`
	Digest    string    `json:"digest" doc:"SHA-256 of the content, in hexadecimal digits; with sha256: before it"`
	Type      string    `json:"type,omitempty" doc:"media type that it was put with"`
	Updated   time.Time `json:"updated"`
	By        string    `json:"by,omitempty" doc:"who put it"`
	Origin    string    `json:"origin" doc:"who owns it: root, or the name of a cluster"`
	Copy      bool      `json:"copy,omitempty" doc:"what is here is a copy"`
	// Stale: the owner could not be asked whether it is still so.
	Stale bool `json:"stale,omitempty" doc:"the owner cannot be asked now whether this is still so"`
	// Problem is why only the name is known, and what to do; "" for nothing.
	Problem string `json:"problem,omitempty" doc:"why only its name is known: what is stored about it cannot be read"`
}
