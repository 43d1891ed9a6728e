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

// ImageSourcesPath is where a worker asks its cluster which others may have an image:
// POST of an ImageAsk, answered by ImageSources.
const ImageSourcesPath = "/v1/images/sources"

// ImageProtocol is what asking another worker for a part of an image is called in a TLS
// handshake (ALPN) at its data port: HTTP, GET ImageBlobPath + DIGEST + "?image=NAME",
// with a range where the first part is there already. 503 with ImageFetchedHeader says
// that the worker is fetching the image itself, and how many bytes it has; 404 that it
// has nothing of it.
const (
	ImageProtocol      = "verge-image/1"
	ImageBlobPath      = "/v1/blobs/"
	ImageFetchedHeader = "Verge-Fetched"
)

// ImageAsk is a worker's question for who may have an image that it is to run.
type ImageAsk struct {
	V     int    `json:"v"`
	Image string `json:"image,omitempty"`
	// Gone are images that it has removed to make room, for the events; then Image may
	// be "".
	Gone []ImageGone `json:"gone,omitempty"`
}

// ImageGone is an image that a worker has removed.
type ImageGone struct {
	Image string `json:"image"`
	Size  int64  `json:"size"` // bytes, of its parts as they were pulled
	Why   string `json:"why"`
}

// ImageSources are workers of the cluster that may have an image, the surest first.
type ImageSources struct {
	V       int           `json:"v"`
	Sources []ImageSource `json:"sources,omitempty"`
}

// ImageSource is one of them.
type ImageSource struct {
	Worker string `json:"worker"`
	// Address of its data port.
	Address string `json:"address"`
	// Pending: it is about to fetch the image, or does so.
	Pending bool `json:"pending,omitempty"`
}
