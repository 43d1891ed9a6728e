// Package status is what people are shown of applications, services, instances and clusters,
// made of the model alone.
//
// Promises:
//
//  1. An instance and a cluster are shown with the age of the report that says so.
//  2. An application holds if each of its services has what its descriptor promises; else it
//     says what is missing.
package status
