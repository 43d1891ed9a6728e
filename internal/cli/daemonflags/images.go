package daemonflags

import (
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
)

// Defaults of what is kept of images.
const (
	keepUnused = 7 * 24 * time.Hour
	diskHigh   = 85
)

// pullFlags are those of how a worker fetches images.
func pullFlags(fl *pflag.FlagSet, p *engineapi.PullConfig, mirrors *[]string) {
	fl.TextVar(&p.Rate, "pull-rate", api.Bitrate(0), "limit of all image pulls together, as 20Mbps (0: none)")
	p.KeepUnused = api.Duration(keepUnused)
	fl.TextVar(&p.KeepUnused, "image-keep", p.KeepUnused, "how long an unused image from a registry stays (0: forever)")
	fl.IntVar(&p.DiskHigh, "image-disk-high", diskHigh,
		"usage of the images' disk in percent above which unused images go (0: not checked)")
	fl.StringVar(&p.Hosts, "registry-hosts", "",
		"folder with a hosts.toml for each registry, as containerd and K3s use (default: /etc/containerd/certs.d)")
	fl.StringArrayVar(mirrors, "registry-mirror", nil,
		"mirror to ask before a registry, as docker.io=https://mirror.example.org (repeatable)")
}

// settlePull reads and checks what pullFlags got.
func settlePull(p *engineapi.PullConfig, mirrors []string) error {
	if p.KeepUnused < 0 {
		return errMustBe("--image-keep", strconv.Quote(p.KeepUnused.String()), "0 or more")
	}
	if p.DiskHigh < 0 || p.DiskHigh > 100 {
		return errMustBe("--image-disk-high", p.DiskHigh, "0 to 100")
	}
	if p.Hosts != "" && !filepath.IsAbs(p.Hosts) {
		return errMustBe("--registry-hosts", strconv.Quote(p.Hosts), "an absolute path")
	}
	const flag, want = "--registry-mirror", "HOST=URL, as docker.io=https://mirror.example.org, each host once"
	for _, m := range mirrors {
		host, at, _ := strings.Cut(m, "=")
		u, err := url.Parse(at)
		if _, twice := p.Mirrors[host]; err != nil || twice || host == "" || strings.ContainsAny(host, "/@ ") ||
			u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" ||
			strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return errMustBe(flag, strconv.Quote(host+"=…"), want)
		}
		if p.Mirrors == nil {
			p.Mirrors = map[string]string{}
		}
		p.Mirrors[host] = u.Scheme + "://" + u.Host
	}
	return nil
}
