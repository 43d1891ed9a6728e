// Package imagestore has the images of a machine, in containerd: it fetches them from
// registries and from other workers, loads archives, resolves names, and collects what
// nobody needs. It knows containers only as users of images, and nothing of tasks.
//
// Promises:
//
//  1. What is fetched has the digest that the registry says, wherever it comes from. A pull
//     that fails leaves no image; what an interrupted one has fetched is kept for a day, or
//     until its room is needed, and the next pull goes on from there.
//  2. One pull of an image runs at a time, and whoever waits for it is told how far it is.
//  3. Collect never removes an image of which there is a container, or that its caller needs.
package imagestore
