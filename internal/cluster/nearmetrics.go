package cluster

import "github.com/verge-edge/verge/internal/obs"

// nearCounts are what this process has counted of distances and agreements.
type nearCounts struct {
	answered, failed uint64 // questions to workers
	kept, violated   uint64 // samples of agreements
}

// nearSamples are figures of what must be near. The mutex is held.
func (m *model) nearSamples() []obs.Sample {
	unkept := 0
	for _, up := range m.Ups {
		if up.SLAViolation != "" {
			unkept++
		}
	}
	n := m.near.counts
	by := func(name, help, result string, value uint64) obs.Sample {
		return obs.Sample{Name: name, Help: help, Counter: true, Labels: [][2]string{{"result", result}}, Value: float64(value)}
	}
	const asked, sampled = "Questions to workers about distances, by what came of them.", "Samples of agreements about distances (latency), by whether they keep it."
	return []obs.Sample{
		by("verge_distance_questions_total", asked, "answered", n.answered),
		by("verge_distance_questions_total", asked, "failed", n.failed),
		by("verge_agreement_samples_total", sampled, "kept", n.kept),
		by("verge_agreement_samples_total", sampled, "violated", n.violated),
		{Name: "verge_agreements_unkept", Help: "Instances that do not keep their agreement, and no other worker of the cluster is expected to.", Value: float64(unkept)},
	}
}
