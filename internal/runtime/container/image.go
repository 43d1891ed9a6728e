package container

import (
	"errors"
	"time"
)

// Image is one that is kept on this machine.
type Image struct {
	Name    string
	Digest  string
	Size    int64 // of its parts as they were pulled or imported, in bytes
	Created time.Time
	// Users are the instances whose containers are made of it.
	Users []string
}

// ErrNoImage is wrapped by the error of RemoveImage for one that is not there.
var ErrNoImage = errors.New("there is no such image on this machine")
