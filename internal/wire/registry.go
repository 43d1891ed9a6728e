package wire

import "github.com/verge-edge/verge/api"

// PullConfig is how a worker fetches images.
type PullConfig struct {
	// Rate bounds what all pulls together receive; 0: not bounded.
	Rate api.Bitrate `json:"rate,omitempty"`
	// Mirrors are asked first, by the host of the registry: URLs without a path.
	Mirrors map[string]string `json:"mirrors,omitempty"`
}
