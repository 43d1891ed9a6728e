// Package images keeps the container images of a worker: workers of a cluster copy them from
// each other, and those that nothing needs are removed. Local are the images of the machine,
// for its operator.
//
// Promises:
//
//  1. An image that an order names is never removed.
//  2. Only workers of the same cluster get parts of images, at most eight at a time.
package images
