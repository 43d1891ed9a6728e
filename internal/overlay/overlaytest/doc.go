// Package overlaytest lets tests of the overlay work with the real kernel: the
// whole test binary runs again in network and mount namespaces of its own, which
// are "the machine" to it and end with it, so that nothing can be left behind and
// nothing of the real machine is touched.
package overlaytest
