// Package share divides replicas among those that have room for them: one each in turn, those
// with the fewest first, so that several serve and one failure takes little.
package share
