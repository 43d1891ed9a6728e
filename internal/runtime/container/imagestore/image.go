package imagestore

import (
	"errors"
	"fmt"
	"time"

	// What "redis" means is decided by the program that everybody knows it from.
	"github.com/distribution/reference"
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

// FullName is the whole name of an image: "redis" is docker.io/library/redis:latest.
func FullName(image string) (string, error) {
	named, err := reference.ParseDockerRef(image)
	if err != nil {
		return "", fmt.Errorf("%q is not the name of an image: %w", image, err)
	}
	return named.String(), nil
}
