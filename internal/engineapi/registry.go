package engineapi

import "github.com/verge-edge/verge/api"

// PullConfig is how a worker fetches images.
type PullConfig struct {
	// Rate bounds what all pulls together receive; 0: not bounded.
	Rate api.Bitrate `json:"rate,omitempty"`
	// Mirrors are asked first, by the host of the registry: URLs without a path.
	Mirrors map[string]string `json:"mirrors,omitempty"`
	// Hosts is the folder with a hosts.toml for each registry, as containerd has it; "":
	// containerd's own, /etc/containerd/certs.d.
	Hosts string `json:"hosts,omitempty"`
	// KeepUnused is for how long an image stays that nothing needs; 0: for ever.
	KeepUnused api.Duration `json:"keep_unused,omitempty"`
	// DiskHigh is how many percent of the disk of images may be used before some that
	// nothing needs are removed; 0: it is not looked at.
	DiskHigh int `json:"disk_high,omitempty"`
}
