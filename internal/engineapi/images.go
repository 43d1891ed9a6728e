package engineapi

import "time"

// ImageView is an image in the store of a worker's machine, as verge image ls shows it.
type ImageView struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	// Size in bytes of its layers as pulled or imported: compressed.
	Size    int64     `json:"size"`
	Created time.Time `json:"created"`
	// Users are the instances that run it.
	Users []string `json:"users,omitempty"`
}
