// Package importer turns what people already have into descriptors of Verge: compose files,
// manifests of Kubernetes, and deployment descriptors of Oakestra.
//
// Promises:
//
//  1. What it makes passes descriptor.Parse; otherwise it makes nothing.
//  2. Each field of a source is carried over or named in a Note with its line. No field is
//     dropped silently.
//  3. Values of secrets appear in no descriptor and in no note. The environment of the caller is
//     not read.
//  4. Input is bounded before it is parsed, aliases before they are used, and expansions of
//     references before they are made.
//
// It opens no file and no connection: the caller passes sources, and a function that reads files
// below their folder.
//
// Where things are:
//
//	importer              finds out what each source is, hands it to its package, collects the results
//	importer/source       a YAML or JSON file as a tree that knows its lines
//	importer/report       notes, what becomes of the fields of a format, the budget of expansions
//	importer/draft        what all formats share in making services: names, ports, files, limits
//	importer/compose      compose files, on top of compose-go
//	importer/kubernetes   manifests
//	importer/oakestra     descriptors of Oakestra
package importer
