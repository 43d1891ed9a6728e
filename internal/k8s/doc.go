// Package k8s has the types of k8s.io/api that manifests are read into: pods, services,
// claims, and the metadata of all. Their fields are those of Kubernetes, all of them, so
// that what is no field can be told from what is not carried over.
//
// They are made from k8s.io/api by this package's test, which fails where they differ:
// go test ./internal/k8s -update. That package itself brings, for each of its
// kinds, the code that reads and writes it in protocol buffers and copies it, and the
// program would have all of it (see the footprint).
package k8s

// FieldsV1 says who manages which field of an object: it is of no use in a file.
type FieldsV1 struct{}

// UnmarshalJSON takes anything.
func (*FieldsV1) UnmarshalJSON([]byte) error { return nil }
