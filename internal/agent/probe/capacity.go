package probe

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/agent/engineconfig"
	"github.com/verge-edge/verge/internal/wire"
)

// Capacity says what instances may reserve: what was set, else what the machine
// has, less the reserve (a fraction). Memory and disk that it does not have cannot
// be set; processors may be promised more often than they are there, since whoever
// waits for one only gets slower.
func Capacity(dir string, set api.Resources, reserve float64) (api.Resources, error) {
	out := set
	if err := has(dir, set); err != nil {
		return out, err
	}
	if out.CPU == 0 {
		out.CPU = api.CPU(float64(runtime.NumCPU()*1000) * (1 - reserve))
	}
	if out.Memory == 0 {
		total, err := memory()
		if err != nil {
			return out, fmt.Errorf("finding out how much memory there is (set it with --memory): %w", err)
		}
		out.Memory = api.Bytes(float64(total) * (1 - reserve))
	}
	if out.Disk == 0 {
		free, _, err := disk(dir)
		if err != nil {
			return out, fmt.Errorf("finding out how much disk is free (set it with --disk): %w", err)
		}
		out.Disk = steady(dir, api.Bytes(float64(free)*(1-reserve)))
	}
	return out, nil
}

// steady keeps the amount of disk that this worker started with for as long as
// it is about right: files come and go, and a worker whose capacity changed with
// each of them would be at odds with what was placed on it.
func steady(dir string, probed api.Bytes) api.Bytes {
	const step = 1 << 30
	rounded := probed
	if probed > step {
		rounded = probed / step * step
	}
	had, err := engineconfig.Read(dir)
	if err != nil || had.Capacity.Disk == 0 {
		return rounded
	}
	if diff := probed - had.Capacity.Disk; max(diff, -diff) < probed/8 {
		return had.Capacity.Disk
	}
	return rounded
}

// memory of the machine in bytes.
func memory() (int64, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	for sc := bufio.NewScanner(f); sc.Scan(); {
		fields := strings.Fields(sc.Text())
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/meminfo has no MemTotal")
}

// has says whether the machine has what is to be promised of it. What cannot be
// found out is believed.
func has(dir string, set api.Resources) error {
	total, err := memory()
	if err == nil && set.Memory > api.Bytes(total) {
		return wire.Problemf(0, "no-such-capacity", "give less, or leave --memory out: it is found out then",
			"the machine does not have that much memory", "--memory %s, there are %s", set.Memory, api.Bytes(total))
	}
	_, all, err := disk(dir)
	if err == nil && set.Disk > api.Bytes(all) {
		return wire.Problemf(0, "no-such-capacity",
			"give less, choose a --data-dir on another disk, or leave --disk out: it is found out then",
			"the disk is not that large", "--disk %s, that of %s has %s", set.Disk, dir, api.Bytes(all))
	}
	return nil
}

// disk is what an ordinary user may still write below dir, and the size of the file
// system that it is on. At a first start the directory is not there yet, what it
// will lie in is.
func disk(dir string) (free, all int64, err error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return 0, 0, err
	}
	var st unix.Statfs_t
	err = unix.Statfs(at, &st)
	for errors.Is(err, os.ErrNotExist) && filepath.Dir(at) != at {
		at = filepath.Dir(at)
		err = unix.Statfs(at, &st)
	}
	size := int64(st.Bsize) //nolint:unconvert // of other types on other machines
	return int64(st.Bavail) * size, int64(st.Blocks) * size, err
}
