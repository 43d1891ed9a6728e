// Package profiler measures how many requests per second one instance serves: it asks workers
// to send load, step by step, and keeps the result.
//
// Promises: one run per service at a time, and a run ends when nobody asks for it any longer.
package profiler
