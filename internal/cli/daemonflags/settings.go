package daemonflags

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/pattern"
)

// noneWord turns something off.
const noneWord = "none"

// flagsFromEnvironment sets each flag of cmd that was not given from
// VERGE_<FLAG>, and tells origin so. Only daemons do that: VERGE_API of a root
// must not change what a client's --api means.
func (l *Line) flagsFromEnvironment(cmd *cobra.Command, origin map[string]string) error {
	var first error
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || first != nil {
			return
		}
		name := "VERGE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := l.Getenv(name)
		if value == "" {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			first = l.Usage(cmd, "environment variable %s: %v", name, err)
		}
		origin[f.Name] = name
	})
	return first
}

func dataDirUsage(role string) string {
	return fmt.Sprintf("directory for its state (default: /var/lib/verge/%s; without root rights "+
		"$XDG_STATE_HOME/verge/%s)", role, role)
}

// dataDir fills in the default folder of a role.
func (l *Line) dataDir(dir *string, role string) error {
	if *dir != "" {
		return nil
	}
	if os.Geteuid() == 0 {
		*dir = filepath.Join("/var/lib/verge", role)
		return nil
	}
	base := l.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home := l.Getenv("HOME")
		if home == "" {
			return errors.New("neither --data-dir, XDG_STATE_HOME nor HOME is set")
		}
		base = filepath.Join(home, ".local", "state")
	}
	*dir = filepath.Join(base, "verge", role)
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func errMustBe(flag string, is any, must string) error {
	return fmt.Errorf("%s is %v, it must be %s", flag, is, must)
}

func oneOf(flag, value string, all ...string) error {
	if slices.Contains(all, value) {
		return nil
	}
	return errMustBe(flag, strconv.Quote(value), "one of "+strings.Join(all, ", "))
}

// address checks an address to listen on.
func address(flag, value string) error {
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		return errMustBe(flag, strconv.Quote(value), "HOST:PORT or :PORT")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return errMustBe(flag, strconv.Quote(value), "HOST:PORT with a port of 0 to 65535")
	}
	if host == "" {
		return nil
	}
	return hosts(flag, []string{host})
}

func optionalAddress(flag, value string) error {
	if value == "" {
		return nil
	}
	return address(flag, value)
}

func noneIsEmpty(values ...*string) {
	for _, v := range values {
		if *v == noneWord {
			*v = ""
		}
	}
}

// advertised checks HOST, HOST:PORT, "none" or "".
func advertised(flag, value string) error {
	if value == "" || value == noneWord || net.ParseIP(value) != nil {
		return nil
	}
	if _, _, err := net.SplitHostPort(value); err == nil {
		return address(flag, value)
	}
	return hosts(flag, []string{value})
}

var (
	hostName = pattern.Lazy(`^[a-zA-Z0-9_]([-a-zA-Z0-9_.]{0,251}[a-zA-Z0-9_])?\.?$`)
	dnsLabel = pattern.Lazy(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

func hosts(flag string, all []string) error {
	for _, h := range all {
		ip := strings.SplitN(h, "%", 2)[0] // an IPv6 zone
		if net.ParseIP(ip) == nil && !hostName().MatchString(h) {
			return errMustBe(flag, strconv.Quote(h), "a host name or an address without a port")
		}
	}
	return nil
}

const labelRule = "a DNS label: a-z, 0-9 and -, from a letter, at most 63"

func labels(flag string, all []string) error {
	for _, l := range all {
		if !dnsLabel().MatchString(l) {
			return errMustBe(flag, strconv.Quote(l), labelRule)
		}
	}
	return nil
}

// Bounds of what an operator says about a node.
const (
	maxNodeLabels = 64
	maxOperator   = 200
)

// keyValues checks the labels of a worker or cluster.
func keyValues(flag string, all map[string]string) error {
	if len(all) > maxNodeLabels {
		return fmt.Errorf("%s is given %d times; the limit is %d", flag, len(all), maxNodeLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if problem := api.LabelProblem(key, all[key]); problem != "" {
			return fmt.Errorf("%s: %s", flag, problem)
		}
	}
	return nil
}

const locationUsage = "its location, LATITUDE,LONGITUDE in degrees, as 48.14,11.58 (default: unknown)"

// location parses a point; nil where none is given.
func location(flag, value string) (*api.Point, error) {
	if value == "" {
		return nil, nil
	}
	p, err := api.ParsePoint(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return &p, nil
}

func optionalLabel(flag, value string) error {
	if value == "" {
		return nil
	}
	return labels(flag, []string{value})
}

// directories checks absolute paths, and cleans them.
func directories(flag string, all []string) error {
	for i, d := range all {
		if !filepath.IsAbs(d) {
			return errMustBe(flag, strconv.Quote(d), "an absolute path")
		}
		all[i] = filepath.Clean(d)
	}
	return nil
}

// hostUsers checks names of users as descriptors have them.
func hostUsers(flag string, all []string) error {
	for _, u := range all {
		if !api.IsUser(u) {
			return errMustBe(flag, strconv.Quote(u),
				"a name or a number, with or without :group, as www-data or 1000:1000")
		}
	}
	return nil
}

func distinct(flag string, all []string) error {
	seen := map[string]bool{}
	for _, v := range all {
		if seen[v] {
			return fmt.Errorf("%s has %q twice", flag, v)
		}
		seen[v] = true
	}
	return nil
}

// workerLabel checks the name of a worker, or makes one from the host's.
func workerLabel(name *string) error {
	if *name != "" {
		return labels("--name", []string{*name})
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("--name is not given and the host has no name: %w", err)
	}
	*name = toLabel(host)
	return nil
}

// toLabel makes a DNS label of a host name: its first part in lower case, with
// all that does not belong there as "-".
func toLabel(host string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	host = strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return '-'
	}, host)
	host = strings.Trim(host, "-")
	if host == "" || host[0] < 'a' {
		host = "w-" + host
	}
	return strings.Trim(host[:min(len(host), 63)], "-")
}

// percent reads "5%" as 0.05.
func percent(flag, value string) (float64, error) {
	number, ok := strings.CutSuffix(value, "%")
	n, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(n >= 0 && n <= 90) {
		return 0, errMustBe(flag, strconv.Quote(value), "a percentage of 0% to 90%")
	}
	return n / 100, nil
}
