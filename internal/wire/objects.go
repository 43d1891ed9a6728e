package wire

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
)

// Bounds of objects.
const (
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
	// Problem is why only the name is known, and what to do; "" for nothing.
	Problem string `json:"problem,omitempty" doc:"why only its name is known: what is stored about it cannot be read"`
}

// OriginRoot is the origin of what the root owns. No cluster has that name for
// objects: a name in a view is a cluster's.
const OriginRoot = "root"

// ETag of an object, by its digest.
func ETag(digest string) string { return `"` + digest + `"` }

// CheckObjectName refuses what cannot be the name of an object (api.IsObjectName).
func CheckObjectName(name string) error {
	if api.IsObjectName(name) {
		return nil
	}
	return Problemf(http.StatusUnprocessableEntity, "bad-name", "letters, digits, . _ - and =, with / between parts, at most 200 in all",
		"this cannot be the name of an object", "%q", name[:min(len(name), api.MaxObjectName)])
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

// MaxObjectMarks is how many objects a cluster tells its root that it has.
const MaxObjectMarks = 512

// ObjectMark stands for the name of an object where the name is not told: who knows the
// name finds it, and two of 512 names have the same in one of 10⁹ cases.
type ObjectMark [6]byte

// MarkOf is the mark of an object.
func MarkOf(namespace, name string) ObjectMark {
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return ObjectMark(sum[:len(ObjectMark{})])
}

// PackMarks writes marks one after the other, in order: the first MaxObjectMarks.
func PackMarks(marks []ObjectMark) []byte {
	marks = slices.Clone(marks[:min(len(marks), MaxObjectMarks)])
	slices.SortFunc(marks, func(a, b ObjectMark) int { return bytes.Compare(a[:], b[:]) })
	var out []byte
	for i := range marks {
		out = append(out, marks[i][:]...)
	}
	return out
}

// HasMark says whether a mark is among those that PackMarks wrote.
func HasMark(packed []byte, m ObjectMark) bool {
	const size = len(ObjectMark{})
	low, high := 0, min(len(packed)/size, MaxObjectMarks)
	for low < high {
		mid := (low + high) / 2
		switch bytes.Compare(packed[mid*size:(mid+1)*size], m[:]) {
		case 0:
			return true
		case -1:
			low = mid + 1
		default:
			high = mid
		}
	}
	return false
}
