// Package turn decides what is placed next: by priority and age (Claim, InTurn), and among services
// that contend for resources by weighted dominant resource fairness (Round).
package turn
