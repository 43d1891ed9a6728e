// Package imagefiles reads the files of an image where its layers lie, as a container finds
// them, without a mount: above all who its users are.
//
// Promises:
//
//  1. What is read is of the image: links, absolute ones too, lead nowhere else.
//  2. Whiteouts and opaque directories hide what overlayfs would hide.
package imagefiles
