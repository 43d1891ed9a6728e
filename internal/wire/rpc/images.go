package rpc

// ImageSourcesPath is where a worker asks its cluster which other workers may have an image:
// POST of an ImageAsk, answered by ImageSources.
const ImageSourcesPath = "/v1/images/sources"

// ImageProtocol is the ALPN name with which a worker asks another for a part of an image at its
// data port: HTTP, GET ImageBlobPath + DIGEST + "?image=NAME", with a range if it already has
// the first part. 503 with ImageFetchedHeader says that the other is fetching the image itself,
// and how many bytes it has; 404 that it has none of it.
const (
	ImageProtocol      = "verge-image/1"
	ImageBlobPath      = "/v1/blobs/"
	ImageFetchedHeader = "Verge-Fetched"
)

// ImageAsk is a worker's question who may have an image that it is to run.
type ImageAsk struct {
	V     int    `json:"v"`
	Image string `json:"image,omitempty"`
	// Gone are images that it removed to make room, for the events; Image may then be "".
	Gone []ImageGone `json:"gone,omitempty"`
}

// ImageGone is an image that a worker has removed.
type ImageGone struct {
	Image string `json:"image"`
	Size  int64  `json:"size"` // bytes, of its parts as they were pulled
	Why   string `json:"why"`
}

// ImageSources are workers of the cluster that may have an image, the likeliest first.
type ImageSources struct {
	V       int           `json:"v"`
	Sources []ImageSource `json:"sources,omitempty"`
}

// ImageSource is a worker that may have an image.
type ImageSource struct {
	Worker string `json:"worker"`
	// Address of its data port.
	Address string `json:"address"`
	// Pending: it is fetching the image, or about to.
	Pending bool `json:"pending,omitempty"`
}
