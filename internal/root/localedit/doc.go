// Package localedit is what clusters report of changes that people made there without the root.
// They are shown, and count for quotas; the root decides nothing by them.
//
// Promises:
//
//  1. What one cluster reports is bounded in number and length.
//  2. A cluster reports for itself: the name in a change is that of its account.
package localedit
