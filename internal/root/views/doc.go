// Package views is what people are shown of the root and its clusters: of the model, and of what
// clusters answer that let their details be seen.
//
// Promises:
//
//  1. Clusters are asked at the same time, and each question has an end (core.AskTimeout).
//  2. A cluster that cannot be asked, or does not answer, is named with the reason.
//  3. Who may not see a cluster or an application is not shown it in a status.
package views
