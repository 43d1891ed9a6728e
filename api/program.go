package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// SameProgram reports whether an instance that was started for s needs no
// restart to be an instance of o: the two differ at most in what the tiers and
// the worker look up anew (how many, where, how probed, stopped and restarted,
// under which host), and not in what the process itself was given.
func (s *Service) SameProgram(o *Service) bool {
	a, err1 := json.Marshal(s.program())
	b, err2 := json.Marshal(o.program())
	return err1 == nil && err2 == nil && string(a) == string(b)
}

// ProgramID names what SameProgram compares: two services with the same id are
// the same program. It is kept where keeping the whole would be too much.
func (s *Service) ProgramID() string {
	b, err := json.Marshal(s.program())
	if err != nil {
		return ""
	}
	// By name, so that the order of the fields in this build does not matter.
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		return ""
	}
	if b, err = json.Marshal(fields); err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// program is the part of s that a running process cannot be changed in.
func (s *Service) program() Service {
	p := Service{Runtime: s.Runtime, Image: s.Image, User: s.User, Module: s.Module, Command: s.Command, Args: s.Args,
		Env: s.Env, EnvSecrets: s.EnvSecrets,
		Files: s.Files, Volumes: s.Volumes, Resources: s.Resources, Devices: s.Devices, Limits: s.Limits,
		Security: s.Security}
	p.Ports = slices.Clone(s.Ports)
	for i := range p.Ports {
		p.Ports[i].Ingress = nil
	}
	return p
}

// SameConstraints reports whether s and o may run on the same workers, as far as
// neither what they reserve nor their volumes matters.
func (s *Service) SameConstraints(o *Service) bool {
	a, err1 := json.Marshal(s.constraints())
	b, err2 := json.Marshal(o.constraints())
	return err1 == nil && err2 == nil && string(a) == string(b)
}

func (s *Service) constraints() Service {
	return Service{Architecture: s.Architecture, Location: s.Location, Affinity: s.Affinity, AntiAffinity: s.AntiAffinity}
}
