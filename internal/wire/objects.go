package wire

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"slices"

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

// OriginRoot is the origin of what the root owns. No cluster has that name for objects: any
// other name in a view is a cluster's.
const OriginRoot = "root"

// ETag of an object, by its digest.
func ETag(digest string) string { return `"` + digest + `"` }

// CheckObjectName refuses invalid names of objects (api.IsObjectName).
func CheckObjectName(name string) error {
	if api.IsObjectName(name) {
		return nil
	}
	return Problemf(http.StatusUnprocessableEntity, "bad-name", "letters, digits, . _ - and =, with / between parts, at most 200 in all",
		"this cannot be the name of an object", "%q", name[:min(len(name), api.MaxObjectName)])
}

// ObjectType returns t if it can be stored as an object's media type, else "".
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

// MaxObjectMarks is how many of its objects a cluster reports to its root.
const MaxObjectMarks = 512

// ObjectMark stands for the name of an object without revealing it. Who knows the name finds
// it. Two of 512 names have the same mark in one of 10⁹ cases.
type ObjectMark [6]byte

// MarkOf is the mark of an object.
func MarkOf(namespace, name string) ObjectMark {
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return ObjectMark(sum[:len(ObjectMark{})])
}

// PackMarks writes the first MaxObjectMarks marks one after the other, sorted.
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
