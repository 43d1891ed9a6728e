package link

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/verge-edge/verge/internal/atomicfile/statefile"
)

// settingsFile says what this worker has changed of the machine's settings. It is
// below Dir's parent, the worker's folder.
const settingsFile = "machine.json"

// settings are those of /proc/sys/net that were changed, by path, as they were before.
// settingsKind had no number of its form at first, which is form 0.
var settingsKind = &statefile.Kind{
	What: "settings of the machine", Max: 1 << 16, Version: 1,
	Steps: map[int]statefile.Step{0: statefile.Fields(1, nil)},
}

type settings struct {
	V int `json:"v"`
	// Boot in which that was: a machine that was started again has its own.
	Boot string            `json:"boot"`
	Had  map[string]string `json:"had"`
}

func (l *Links) settingsPath() string { return filepath.Join(filepath.Dir(l.opts.Dir), settingsFile) }

// changed are the settings that this worker has changed since the machine was started.
func (l *Links) changed() (settings, error) {
	s := settings{V: settingsKind.Version, Boot: l.opts.Boot, Had: map[string]string{}}
	var had settings
	_, err := settingsKind.Read(l.settingsPath(), &had)
	if newer := (*statefile.NewerError)(nil); errors.As(err, &newer) {
		return s, err
	}
	if err == nil && had.Boot == s.Boot && had.Had != nil {
		s.Had = had.Had
	}
	return s, nil
}

// Forward enables forwarding on the machine. Interfaces that accept router advertisements keep
// doing so, which the kernel would otherwise stop. The former settings are remembered, for
// Restore.
func (l *Links) Forward(ipv4 bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	const all, four = "ipv6/conf/all/forwarding", "ipv4/ip_forward"
	want := map[string]string{}
	if setting(all) != "1" {
		devices, err := os.ReadDir("/proc/sys/net/ipv6/conf")
		if err != nil {
			return fmt.Errorf("list devices: %w", err)
		}
		for _, d := range devices {
			if path := "ipv6/conf/" + d.Name() + "/accept_ra"; setting(path) == "1" {
				want[path] = "2"
			}
		}
	}
	s, err := l.changed()
	if err != nil {
		return err
	}
	had := maps.Clone(s.Had)
	note := func(path string) {
		if _, known := s.Had[path]; !known {
			s.Had[path] = setting(path)
		}
	}
	for path := range want {
		note(path)
	}
	if setting(all) != "1" {
		note(all)
	}
	if ipv4 && setting(four) != "1" {
		note(four)
	}
	if !maps.Equal(had, s.Had) {
		if err := settingsKind.Write(l.settingsPath(), s); err != nil {
			return fmt.Errorf("remember the machine's settings: %w", err)
		}
	}
	for path, value := range want { // before it is a router
		if err := sysctl(path, value); err != nil {
			return err
		}
	}
	if err := sysctl(all, "1"); err != nil {
		return err
	}
	if ipv4 {
		return sysctl(four, "1")
	}
	return nil
}

// Restore puts back what Forward has changed. With keep it only forgets it: somebody
// else goes by it meanwhile.
func (l *Links) Restore(keep bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	s, err := l.changed()
	if err != nil {
		return fmt.Errorf("put the machine's settings back: %w", err)
	}
	if !keep {
		had := s.Had
		for _, router := range []bool{true, false} { // first it is none any more
			for path, value := range had {
				if router != strings.HasSuffix(path, "/accept_ra") && value != "" {
					errs = append(errs, sysctl(path, value))
				}
			}
		}
	}
	if err := os.Remove(l.settingsPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, fmt.Errorf("forget the machine's settings: %w", err))
	}
	return errors.Join(errs...)
}

// setting below /proc/sys/net, "" where it is not there.
func setting(path string) string {
	b, err := os.ReadFile("/proc/sys/net/" + path) //nolint:gosec // a path of the kernel's
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
