package hooks

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/wire"
)

func bad(format string, args ...any) error {
	return wire.Problemf(422, "bad-hook", "see verge hook set --help", "the hook cannot be like that", format, args...)
}

// settle checks what a hook of a tier is to do and fills in what it leaves out.
func settle(s wire.HookSpec, namespace, tier string) (wire.HookSpec, error) {
	if err := checkURL(s.URL, s.Plain); err != nil {
		return s, err
	}
	slices.Sort(s.On)
	s.On = slices.Compact(s.On)
	for _, on := range s.On {
		if other := elsewhere(on, tier); other != "" {
			return s, bad("on: %s is an event of a %s, and this hook is of a %s", on, other, tier)
		}
		if !known(on, tier) {
			return s, bad("on: there is no %.60q; there are %s, a kind as \"instance.*\", and \"*\"", on,
				kindNames(tier))
		}
		if family, _, _ := strings.Cut(on, "."); (family == "cluster" || family == "worker") && namespace != "" {
			return s, bad("on: %s is of no namespace, and so not for a hook of namespace %s", on, namespace)
		}
	}
	slices.Sort(s.Before)
	s.Before = slices.Compact(s.Before)
	for _, g := range s.Before {
		if !slices.Contains(wire.Gates, g) {
			return s, bad("before: there is no %.60q; there are %s", g, strings.Join(wire.Gates, ", "))
		}
	}
	if len(s.On) == 0 && len(s.Before) == 0 {
		return s, bad("it has neither events (on) nor operations (before)")
	}
	switch {
	case s.OnFailure != "" && len(s.Before) == 0:
		return s, bad("on_failure is about what it is asked before, which is nothing")
	case s.OnFailure == "" && len(s.Before) > 0:
		s.OnFailure = wire.HookClosed
	case s.OnFailure != "" && s.OnFailure != wire.HookOpen && s.OnFailure != wire.HookClosed:
		return s, bad("on_failure is closed or open")
	}
	if s.WaitSeconds == 0 {
		s.WaitSeconds = wire.HookWait
	}
	if s.KeepSeconds == 0 {
		s.KeepSeconds = wire.HookKeep
	}
	if s.WaitSeconds < 1 || s.WaitSeconds > wire.MaxHookWait {
		return s, bad("wait_seconds is 1 to %d", wire.MaxHookWait)
	}
	if s.KeepSeconds < 60 || s.KeepSeconds > wire.MaxHookKeep {
		return s, bad("keep_seconds is 60 to %d", wire.MaxHookKeep)
	}
	if client, err := newClient(nil, nil, s.CA); err != nil {
		return s, bad("%v", err)
	} else {
		client.CloseIdleConnections()
	}
	return s, nil
}

// checkURL says why a URL cannot be that of a hook.
func checkURL(text string, plain bool) error {
	if len(text) > wire.MaxHookURL {
		return bad("url: %d bytes, at most %d", len(text), wire.MaxHookURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return bad("url: needs the form https://host/path")
	case u.Scheme == "http" && !plain:
		return bad("url: http can be read and changed on the way; use https, or allow it (plain, --plain-http)")
	case u.Scheme != "https" && u.Scheme != "http":
		return bad("url: it begins with https://")
	case u.User != nil:
		return bad("url: no user and password in it; the signature says who sends")
	case u.Fragment != "":
		return bad("url: nothing after # is sent")
	}
	return nil
}

// known says whether the name is a kind that hooks of a tier receive; tier "": of any tier.
func known(on, tier string) bool {
	return slices.ContainsFunc(event.Kinds(), func(k event.Kind) bool {
		return k.Told(tier) && event.Matches([]string{on}, k.String())
	})
}

// elsewhere is the tier whose hooks alone receive what is named; "" if those of this tier do, or
// none.
func elsewhere(on, tier string) string {
	for _, other := range []string{string(event.RootHooks), string(event.ClusterHooks)} {
		if tier != "" && other != tier && !known(on, tier) && known(on, other) {
			return other
		}
	}
	return ""
}

func kindNames(tier string) string {
	var names []string
	for _, k := range event.Kinds() {
		if k.Told(tier) {
			names = append(names, k.String())
		}
	}
	return strings.Join(names, ", ")
}

// Host is what of a URL can be shown to everybody: the rest may be a secret.
func Host(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s://%s", u.Scheme, u.Host)
}
