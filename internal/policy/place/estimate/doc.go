// Package estimate estimates from its aggregate how many replicas fit into a cluster. The upper
// bound is proven; the estimate is 0 only if not even one replica fits.
//
// For each resource an aggregate has ⟨S sum, m = S/n mean, σ deviation, M
// maximum⟩ of the amounts x₁…xₙ that are free on its n ready workers. For one
// resource, of which a replica demands d, the number of replicas that fit is
//
//	T = Σᵢ ⌊xᵢ/d⌋ = Σₖ Nₖ,  Nₖ = the number of workers with xᵢ ≥ k·d
//
// since a worker with room for three has room for a first, a second and a
// third. Only k ≤ M/d count: the maximum caps what one worker takes. (If the
// operator withholds the maximum, Samuelson's inequality replaces it: no value is
// further than σ√(n−1) from the mean.) Each Nₖ has proven bounds. The σ of an
// aggregate is that of the whole population, so Cantelli's (the one-sided
// Chebyshev) inequality bounds the shares of workers directly:
//
//	k·d > m:  Nₖ ≤ n · σ²/(σ² + (k·d − m)²)
//	k·d ≤ m:  Nₖ ≥ n − n · σ²/(σ² + (m − (k·d−1))²)
//
// (amounts are whole numbers: less than k·d is at most k·d − 1). Markov's
// inequality, Nₖ·k·d ≤ S, and its mirror image from the maximum down sharpen both;
// so does rounding each to whole workers, in the direction that stays true. The
// largest worker has room for every k ≤ M/d; the smallest has at most
// m − σ/√(n−1), so that beyond it Nₖ ≤ n − 1. In total T ≤ S/d, and
// T ≥ (S − n·(d−1))/d because no worker can waste more than d − 1.
//
// The estimate of one resource is the middle of the lower and the upper bound of
// T, rounded up, less what is pending, ⌈pending/d⌉. For several resources it is
// the smallest of theirs: resources of a worker are mostly used up together.
// With one or two workers and one resource both bounds meet and the estimate is
// exact. TestExpectQuality compares it with exact packing; over its fleets it
// promises all to a cluster that can't in 9 % of those cases, refuses one that
// could in 1 %, and never passes over one that has room for a replica.
//
// The lower bound would never offer too many, but an offer too many costs one
// message and is corrected by the refusal, while one too few leaves capacity
// unused and instances waiting.
package estimate
