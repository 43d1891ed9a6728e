// Package session keeps the input and output of a program that runs beside a
// task for somebody far away, who asks for it piece by piece over a link that
// comes and goes.
//
// Promises:
//
//  1. Every byte has an offset, of input and of output alike. A piece that is
//     sent twice is taken once, and output stays until a later offset is asked
//     for: no answer that is lost loses anything.
//  2. What is kept is bounded (256 KiB of output, 64 KiB of input); then the
//     program waits.
//  3. A session that nobody asks ends, and every end kills the program with all
//     that it started.
package session
