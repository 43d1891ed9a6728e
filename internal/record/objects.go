package record

import "time"

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
