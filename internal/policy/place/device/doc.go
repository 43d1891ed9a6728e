// Package device decides which devices of a worker an instance gets.
//
// Promises:
//
//  1. No part of a device is given twice, and a share lies in one device.
//  2. Admit, the worker's own check, accepts the result of Give.
package device
