// Package gcpace lets a busy process with a small heap collect its garbage less often, and
// one with a large heap earlier.
//
// Go collects when the heap has doubled. A router lives on 4 MB and throws a few kilobytes
// away with each request, so that it collected dozens of times a second under load. While
// much is allocated, the next collection is at Room above what lives; when that is over, the
// heap is collected once, its memory given back, and the ordinary rule holds again. An
// orchestrator of ten thousand workers keeps 400 MB, and would have as much garbage before
// it looked; beyond Large the part that may be garbage becomes smaller. While thousands of
// workers come back or instances start, collecting that early would take a third of the
// processors, so there may be more of it as long as the machine has memory to spare. While a
// process rests nothing here runs: collections themselves wake it.
package gcpace
