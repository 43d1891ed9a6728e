// Package suspicion is the failure detector of both tiers: it decides when a peer that is silent is
// suspect, and when its instances are replaced. It is a decider: time is an argument.
//
// Promises:
//
//  1. No peer is suspected for silence that the orchestrator itself caused.
//  2. Nothing is replaced while the orchestrator hears of nobody and may itself be cut off.
package suspicion
