package bus

import (
	"fmt"
	"slices"
	"strings"
)

// Permissions are the subjects that an identity may use. '*' stands for one
// token and a final '>' for one or more, as in Subscribe. A nil list allows
// nothing; Everything allows all.
type Permissions struct {
	Publish   []string
	Subscribe []string
}

// Everything are the permissions of the process that owns the server.
func Everything() Permissions {
	return Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
}

// CheckPublish says whether p allows publishing to subject.
func (p Permissions) CheckPublish(subject string) error {
	if err := checkSubject(subject, false); err != nil {
		return err
	}
	if !slices.ContainsFunc(p.Publish, func(allowed string) bool { return Covers(allowed, subject) }) {
		return fmt.Errorf("publish to %q: %w", subject, ErrForbidden)
	}
	return nil
}

// CheckSubscribe says whether p allows a subscription to subject, which may
// have wildcards: all that it can match must be allowed by one entry.
func (p Permissions) CheckSubscribe(subject string) error {
	if err := checkSubject(subject, true); err != nil {
		return err
	}
	if !slices.ContainsFunc(p.Subscribe, func(allowed string) bool { return Covers(allowed, subject) }) {
		return fmt.Errorf("subscribe to %q: %w", subject, ErrForbidden)
	}
	return nil
}

// maxSubjectBytes keeps subjects within the control line of a server.
const maxSubjectBytes = 1024

// checkSubject says whether s is a well-formed subject.
func checkSubject(s string, wildcards bool) error {
	if s == "" || len(s) > maxSubjectBytes || strings.ContainsAny(s, " \t\r\n\x00") {
		return fmt.Errorf("invalid subject %q: must have 1 to %d bytes and no white space", s, maxSubjectBytes)
	}
	tokens := strings.Split(s, ".")
	for i, t := range tokens {
		switch {
		case t == "":
			return fmt.Errorf("invalid subject %q: empty token", s)
		case t == "*" || t == ">":
			if !wildcards {
				return fmt.Errorf("invalid subject %q: wildcards are for subscriptions", s)
			}
			if t == ">" && i != len(tokens)-1 {
				return fmt.Errorf("invalid subject %q: '>' must be last", s)
			}
		}
	}
	return nil
}

// Covers reports whether every subject that s matches is matched by pattern.
// For an s without wildcards that means that pattern matches s.
func Covers(pattern, s string) bool {
	for {
		p, prest, pmore := strings.Cut(pattern, ".")
		t, srest, smore := strings.Cut(s, ".")
		if p == ">" {
			return true
		}
		if t == ">" || (p != "*" && p != t) {
			return false
		}
		if !pmore || !smore {
			return pmore == smore
		}
		pattern, s = prest, srest
	}
}
