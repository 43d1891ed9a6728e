package api

import (
	"maps"
	"slices"
)

// Secrets are the names of the secrets that an instance of s needs to start, in
// order, each once.
func (s *Service) Secrets() []string {
	if len(s.EnvSecrets) == 0 && len(s.Files) == 0 && s.PullSecret == "" {
		return nil
	}
	names := slices.Collect(maps.Values(s.EnvSecrets))
	if s.PullSecret != "" {
		names = append(names, s.PullSecret)
	}
	for _, f := range s.Files {
		if f.Secret != "" {
			names = append(names, f.Secret)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
