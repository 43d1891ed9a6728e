package daemonflags

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
)

// autoWord leaves something to be found out.
const autoWord = "auto"

// deviceSyntax is how a device is written.
const deviceSyntax = "TYPE=PATH[:PATH...][,model=NAME][,count=N], such as camera=/dev/video0 or " +
	"gpu=/dev/dri/renderD128,model=a10, or none"

// deviceFlags reads the devices of a worker, and whether others are to be looked for.
func deviceFlags(all []string) (list []engineapi.DeviceNode, probe bool, err error) {
	probe = true
	for _, s := range all {
		if s == noneWord {
			probe = false
			continue
		}
		d, count, ok := deviceFlag(s)
		if !ok || len(list)+count > api.MaxDevices {
			return nil, false, errMustBe("--device", strconv.Quote(s),
				deviceSyntax+"; at most "+strconv.Itoa(api.MaxDevices)+" in all")
		}
		for range count {
			list = append(list, d)
		}
	}
	return list, probe, nil
}

func deviceFlag(s string) (d engineapi.DeviceNode, count int, ok bool) {
	what, options, more := strings.Cut(s, ",")
	typ, paths, _ := strings.Cut(what, "=")
	d.Type, count = typ, 1
	if api.NameProblem(typ) != "" || len(typ) > api.MaxNameLength-4 { // room for a number
		return d, 0, false
	}
	for _, p := range strings.Split(paths, ":") {
		if !filepath.IsAbs(p) {
			return d, 0, false
		}
		d.Paths = append(d.Paths, filepath.Clean(p))
	}
	for more {
		var option string
		option, options, more = strings.Cut(options, ",")
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "model":
			if d.Model = api.DeviceModel(value); d.Model == "" {
				return d, 0, false
			}
		case "count":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > api.MaxDevices {
				return d, 0, false
			}
			count = n
		default:
			return d, 0, false
		}
	}
	return d, count, true
}

// bandwidthFlag reads what instances may reserve of a connection, and whether that is
// to be found out.
func bandwidthFlag(s string) (b api.Bandwidth, probe bool, err error) {
	switch s {
	case autoWord:
		return b, true, nil
	case noneWord:
		return b, false, nil
	}
	wrong := errMustBe("--bandwidth", strconv.Quote(s), "1Gbps, or in=100Mbps,out=20Mbps, or auto or none")
	for _, part := range strings.Split(s, ",") {
		name, value, named := strings.Cut(part, "=")
		if !named {
			value = part
		}
		rate, err := api.ParseBitrate(value)
		switch {
		case err != nil || rate == 0:
			return b, false, wrong
		case !named && part == s:
			return api.Bandwidth{In: rate, Out: rate}, false, nil
		case name == "in" && b.In == 0:
			b.In = rate
		case name == "out" && b.Out == 0:
			b.Out = rate
		default:
			return b, false, wrong
		}
	}
	return b, false, nil
}
