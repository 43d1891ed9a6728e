package api

import (
	"testing"
)

func TestSameProgram(t *testing.T) {
	base := func() *Service {
		return &Service{Command: []string{"a"}, Env: map[string]string{"K": "v"}, Ports: []Port{{Name: "http", Protocol: "http"}}}
	}
	for name, tc := range map[string]struct {
		change func(*Service)
		same   bool
	}{
		"nothing":   {func(*Service) {}, true},
		"replicas":  {func(s *Service) { s.Replicas = Replicas{3, 3} }, true},
		"affinity":  {func(s *Service) { s.Affinity.Cluster = []string{"x"} }, true},
		"readiness": {func(s *Service) { s.Readiness = &Check{TCP: &TCPCheck{}} }, true},
		"host":      {func(s *Service) { s.Ports[0].Ingress = &Ingress{Host: "a.example"} }, true},
		"command":   {func(s *Service) { s.Command = []string{"b"} }, false},
		"env":       {func(s *Service) { s.Env["K"] = "w" }, false},
		"memory":    {func(s *Service) { s.Resources.Memory = 1 << 30 }, false},
		"port":      {func(s *Service) { s.Ports = append(s.Ports, Port{Name: "admin"}) }, false},
	} {
		a, b := base(), base()
		tc.change(b)
		if got := a.SameProgram(b); got != tc.same {
			t.Errorf("%s changed: same program %v, want %v", name, got, tc.same)
		}
		if got := a.ProgramID() == b.ProgramID(); got != tc.same || a.ProgramID() == "" {
			t.Errorf("%s changed: ids %q and %q, same program %v", name, a.ProgramID(), b.ProgramID(), tc.same)
		}
		if b.Ports[0].Ingress == nil && name == "host" {
			t.Error("the comparison changed what it compared")
		}
	}
}

func TestSameConstraints(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Service)
		same   bool
	}{
		"nothing":      {func(*Service) {}, true},
		"program":      {func(s *Service) { s.Command = []string{"b"} }, true},
		"replicas":     {func(s *Service) { s.Replicas = Replicas{3, 3} }, true},
		"cluster":      {func(s *Service) { s.Affinity.Cluster = []string{"x"} }, false},
		"labels":       {func(s *Service) { s.AntiAffinity.Labels = map[string]string{"a": "b"} }, false},
		"location":     {func(s *Service) { s.Location = &Location{Radius: 1} }, false},
		"architecture": {func(s *Service) { s.Architecture = []string{"arm64"} }, false},
	} {
		a, b := &Service{}, &Service{}
		tc.change(b)
		if got := a.SameConstraints(b); got != tc.same {
			t.Errorf("%s changed: same constraints %v, want %v", name, got, tc.same)
		}
	}
}
