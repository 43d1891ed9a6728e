package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Record says when, where and how an experiment ran.
type Record struct {
	Began time.Time `json:"began"`
	// Took is how long, in seconds.
	Took float64 `json:"took_seconds"`
	// LoadBefore and LoadAfter are the machine's load average of a minute; negative if not
	// known.
	LoadBefore float64 `json:"load_before"`
	LoadAfter  float64 `json:"load_after"`
	Machine    string  `json:"machine"`
	Version    string  `json:"version,omitempty"`
	Quick      bool    `json:"quick,omitempty"`
	Seed       uint64  `json:"seed"`
	// Failed says why it ended before its end; "" if it did not. Rows are those until then.
	Failed string `json:"failed,omitempty"`
}

// Begin a record of a run with these options.
func Begin(o Options, version string) *Record {
	return &Record{Began: time.Now().UTC(), LoadBefore: load(), Machine: machine(), Version: version, Quick: o.Quick, Seed: o.Seed}
}

// End it, with the error of the run.
func (r *Record) End(failed error) {
	r.Took, r.LoadAfter = time.Since(r.Began).Seconds(), load()
	if failed != nil {
		r.Failed = failed.Error()
	}
}

func (x Experiment) recordFile(dir string) string {
	return filepath.Join(dir, x.Name+x.Suffix+".run.json")
}

// SaveRecord writes it beside the rows: NAME.run.json.
func (x Experiment) SaveRecord(dir string, r *Record) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(x.recordFile(dir), append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("record of %s: %w", x.Name, err)
	}
	return nil
}

// ReadRecord reads it; nil where there is none.
func (x Experiment) ReadRecord(dir string) (*Record, error) {
	b, err := os.ReadFile(x.recordFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &Record{}
	if err == nil {
		err = json.Unmarshal(b, r)
	}
	if err != nil {
		return nil, fmt.Errorf("record of %s: %w", x.Name, err)
	}
	return r, nil
}

// said is the record for people.
func (r *Record) said() string {
	took := time.Duration(r.Took * float64(time.Second)).Round(time.Second)
	s := fmt.Sprintf("%s, for %s", r.Began.Format("2 January 2006 15:04"), took)
	if r.LoadBefore >= 0 && r.LoadAfter >= 0 {
		s += fmt.Sprintf(", load %.1f to %.1f", r.LoadBefore, r.LoadAfter)
	}
	if r.Quick {
		s += ", quick form"
	}
	return s + fmt.Sprintf(", seed %d", r.Seed)
}

// load average of the last minute, negative where the system does not say.
func load() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(string(b), " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return v
}

// machine describes where this runs, as far as the system says.
func machine() string {
	after := func(file, key string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			return ""
		}
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
				return strings.TrimSpace(value)
			}
		}
		return ""
	}
	s := fmt.Sprintf("%d processors", runtime.NumCPU())
	if model := after("/proc/cpuinfo", "model name"); model != "" {
		s = fmt.Sprintf("%d × %s", runtime.NumCPU(), model)
	}
	if kb, err := strconv.ParseFloat(strings.TrimSuffix(after("/proc/meminfo", "MemTotal"), " kB"), 64); err == nil {
		s += fmt.Sprintf(", %.0f GiB of memory", kb/(1<<20))
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		s += ", Linux " + strings.TrimSpace(string(b))
	}
	return s + ", " + runtime.GOARCH
}
