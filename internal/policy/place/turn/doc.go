// Package turn decides who is placed next: by priority and age (Claim, InTurn), and among services that
// contend for what is free by weighted dominant resource fairness (Round).
package turn
