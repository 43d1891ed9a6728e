// Package demand takes the reports of workers about requests, and lets package autoscale decide
// once in an epoch.
//
// Promises: a decision wakes the controller at once, and demand that is not reported any longer
// fades.
package demand
