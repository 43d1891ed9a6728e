package wire

import "time"

// ImageView is an image that is kept on a worker's machine.
type ImageView struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	// Size in bytes, of its parts as they were pulled or imported.
	Size    int64     `json:"size"`
	Created time.Time `json:"created"`
	// Users are the instances that are made of it.
	Users []string `json:"users,omitempty"`
}
