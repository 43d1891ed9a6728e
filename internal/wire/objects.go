package wire

import (
	"net/http"
	"strings"
	"time"
)

// Bounds of objects.
const (
	MaxObjectName  = 200            // bytes of a name
	MaxObjectBytes = 4 << 30        // of one object
	MaxObjects     = 10_000         // of one namespace, at one tier
	MaxObjectsSize = 16 << 30       // bytes of the objects of one namespace, at one tier
	MaxObjectCopy  = 8 << 30        // bytes of the copies that a cluster keeps of its root's
	maxObjectType  = 100            // bytes of a media type
	ObjectsPath    = "/v1/objects/" // + namespace/name
)

// Object is a tier's record of an object: what its name stands for now.
type Object struct {
	V         int    `json:"v"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Blob is where its bytes are, Size how many, Digest their SHA-256 in hexadecimal
	// digits.
	Blob   string `json:"blob"`
	Size   int64  `json:"size"`
	Digest string `json:"digest"`
	// Type is the media type that it was put with; "" for none.
	Type string `json:"type,omitempty"`
	// Updated is when its owner was given these bytes, By who did.
	Updated time.Time `json:"updated"`
	By      string    `json:"by,omitempty"`
}

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
}

// OriginRoot is the origin of what the root owns. No cluster has that name for
// objects: a name in a view is a cluster's.
const OriginRoot = "root"

// ETag of an object, by its digest.
func ETag(digest string) string { return `"` + digest + `"` }

// CheckObjectName refuses what cannot be the name of an object: 1 to MaxObjectName
// bytes, parts of letters, digits, '.', '_', '-' and '=', between slashes. No part is
// empty, begins or ends with a dot, or has two in a row.
func CheckObjectName(name string) error {
	ok := name != "" && len(name) <= MaxObjectName && !strings.Contains(name, "..")
	for part := range strings.SplitSeq(name, "/") {
		ok = ok && part != "" && part[0] != '.' && part[len(part)-1] != '.'
		for _, c := range []byte(part) {
			ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-=", c) >= 0)
		}
	}
	if ok {
		return nil
	}
	return Problemf(http.StatusUnprocessableEntity, "bad-name", "letters, digits, . _ - and =, with / between parts, at most 200 in all",
		"this cannot be the name of an object", "%q", name[:min(len(name), MaxObjectName)])
}

// ObjectType is t if it can be kept as the media type of an object, else "".
func ObjectType(t string) string {
	for _, c := range []byte(t) {
		if c < ' ' || c > '~' {
			return ""
		}
	}
	if len(t) > maxObjectType {
		return ""
	}
	return t
}

// NoObject says that there is no such object.
func NoObject(namespace, name string) *Problem {
	return Problemf(http.StatusNotFound, "no-such-object", "verge object ls --namespace "+namespace, "there is no such object", "%s is not known in namespace %s", name, namespace)
}
