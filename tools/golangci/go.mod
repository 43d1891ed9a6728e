// The linter of the repository, pinned. A module of its own, so that what it
// needs is not among what Verge needs.
module github.com/verge-edge/verge/tools/golangci

go 1.26.0

tool github.com/golangci/golangci-lint/v2/cmd/golangci-lint

require github.com/golangci/golangci-lint/v2 v2.15.0
