# What to type: make help
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build

# grpc's own pages about its calls, which nobody serves, take the templates of the standard
# library; with these, which call methods by their names, the linker leaves out no method.
export GOFLAGS += -tags=grpcnotrace

VERSION = $(shell tools/version)
GOBUILD = CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/verge-edge/verge/internal/obs.version=$(VERSION)"
LINTER  = bin/golangci-lint
PROMCHECK = bin/promcheck
PACKAGER  = bin/packager

.PHONY: help build demo test fmt vet lint unit fuzz chaos older traffic lab bench ilp bench-proxy bench-cold bench-size kpa-check footprint packages clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

build: ## bin/verge and the programs of the examples: static, stripped, with a version
	@mkdir -p bin
	$(GOBUILD) -o bin/verge ./cmd/verge
	$(GOBUILD) -o bin/guestbook-front ./examples/guestbook/front
	$(GOBUILD) -o bin/hello ./examples/hello
	$(GOBUILD) -o bin/boutique ./examples/boutique/service

# What is installed elsewhere. The same commit gives the same files. ARCHS are Go's names;
# COMPRESS is xz, gzip or none, of the .deb.
ARCHS    ?= amd64 arm64
RELEASE  ?= bin/packages
COMPRESS ?= xz
COMMITTED = $(shell git log -1 --format=%ct)
packages: $(PACKAGER) ## bin/packages: .deb and list of parts for ARCHS="amd64 arm64", an OCI image of them, checksums
	@$(GOBUILD) -o bin/manpages ./tools/manpages
	@set -e; in=$$(mktemp -d bin/parts.XXXXXX); trap 'rm -rf "$$in"' EXIT; \
	  for arch in $(ARCHS); do echo "building verge for $$arch"; GOARCH=$$arch $(GOBUILD) -o $$in/$$arch/verge ./cmd/verge; done; \
	  bin/manpages -out $$in/share -version $(VERSION) -time $(COMMITTED); \
	  $(PACKAGER) -version $(VERSION) -time $(COMMITTED) -compress $(COMPRESS) -in $$in -out $(RELEASE) $(ARCHS)

demo: build ## a guestbook over three clusters, a killed worker, a killed root; KEEP=1 leaves it running
	@tools/needs redis-server
	@echo "building the demo"
	@$(GOBUILD) -o bin/demo ./tools/demo
	@bin/demo $(if $(KEEP),--keep)

test: fmt vet lint unit fuzz ## all that a change must pass

fmt: # every file is as gofmt writes it
	@files=$$(gofmt -l .); \
	  if [ -n "$$files" ]; then echo "not formatted (gofmt -w fixes it):"; echo "$$files"; exit 1; fi

vet:
	go vet ./...

lint: $(LINTER) $(PROMCHECK) ## what golangci-lint has to say, and Prometheus about deploy/monitoring
	$(LINTER) run
	$(PROMCHECK) deploy/monitoring/alerts.yaml deploy/monitoring/grafana-dashboard.json

# Unit, house rules and end to end. The race detector needs gcc, the end-to-end
# tests run the guestbook with redis-server. What is missing and cannot be
# installed is skipped, loudly; .ci/run does not let it pass. A program with the
# race detector would sleep for a second before it ends, and tests start many.
# The end-to-end tests run beside the others and without the detector: they start the
# program itself, which has none, and mostly wait. So do those with containers and with
# emulated links. What computes gives way to these (nice), and compilers to all: who waits
# for an answer within a time should not wait for them. What both others need is compiled
# before them (go list -export), else each would. vet has been over all of them already.
# What is computed without goroutines has no races, and takes a fifth of the time without
# the detector: whole packages (pure), and of others (both) the files that are built
# without it only. These run a second time, -short: without what makes namespaces.
# The solver of an example plugin, from Python's registry, and the version before, from
# the history, are what may be missing in CI too.
BEFORE = 48c016e5a0366fef62b5bba66ac8ec1f294bfd78
unit: $(PACKAGER)
	@race=-race; \
	if ! tools/needs gcc; then \
	  [ -z "$$VERGE_CI_NO_SKIP" ] || exit 1; race=; echo "SKIPPED: the race detector, for want of gcc"; fi; \
	if ! tools/needs redis-server; then \
	  [ -z "$$VERGE_CI_NO_SKIP" ] || exit 1; echo "SKIPPED: the tests with redis-server"; fi; \
	if ! tools/needs nginx haproxy; then \
	  [ -z "$$VERGE_CI_NO_SKIP" ] || exit 1; echo "SKIPPED: nginx and HAProxy beside the gateway"; fi; \
	if ! tools/needs ip nft; then \
	  [ -z "$$VERGE_CI_NO_SKIP" ] || exit 1; echo "SKIPPED: the tests with failures of links"; fi; \
	if ! tools/needs containerd runc busybox; then \
	  [ -z "$$VERGE_CI_NO_SKIP" ] || exit 1; echo "SKIPPED: the tests with containers"; fi; \
	if ! tools/needs wat2wasm; then \
	  [ -z "$$VERGE_CI_NO_SKIP" ] || exit 1; echo "SKIPPED: whether the modules of tests are what their sources say"; fi; \
	if ! tools/debian bin/debian.tar; then \
	  [ -z "$$VERGE_CI_NO_SKIP" ] || exit 1; echo "SKIPPED: the test of the package on a clean Debian"; fi; \
	tools/ilp || echo "SKIPPED: the tests with the solver of plugins/ilp"; \
	if tools/older $(BEFORE) bin/before; then export VERGE_OLDER="$$PWD/bin/before"; \
	else echo "SKIPPED: today's version together with the one before"; fi; \
	mkdir -p bin; set -o pipefail; failed=; \
	export GORACE=atexit_sleep_ms=0; \
	gotest=(go test -vet=off -timeout 25m -toolexec "nice -n 15"); \
	"$${gotest[@]}" ./e2e/... > bin/e2e.log 2>&1 & e2e=$$!; \
	nice -n 15 go list -export $$race ./... > /dev/null || failed=1; \
	waiting="./internal/runtime/container ./internal/lab/experiments"; \
	"$${gotest[@]}" $$race -p 1 $$waiting > bin/waiting.log 2>&1 & waits=$$!; \
	trap 'for p in $$e2e $$waits; do pkill -P $$p; kill $$p 2> /dev/null; done' EXIT; \
	pure=$$(go list ./api ./internal/house ./internal/importer/... ./internal/sim/... ./internal/policy/...); \
	others=$$(go list ./... | grep -vxF "$$pure" | grep -vxF "$$(go list $$waiting)" | grep -v /verge/e2e); \
	nice -n 10 "$${gotest[@]}" $$race -p 2 $$others | tee bin/unit.log || failed=1; \
	both="./internal/cluster ./internal/root ./internal/lab/experiments"; \
	nice -n 10 "$${gotest[@]}" -short -p 2 $$pure $$([ -z "$$race" ] || echo $$both) | tee -a bin/unit.log || failed=1; \
	wait $$waits || failed=1; tee -a bin/unit.log < bin/waiting.log; \
	wait $$e2e || failed=1; tee -a bin/unit.log < bin/e2e.log; \
	[ -z "$$failed" ] || { tools/failed bin/unit.log; exit 1; }

# Random input, briefly, for what people, nodes and functions send, and for what is
# measured; FUZZ=. is every target.
FUZZTIME ?= 3s
FUZZ     ?= ./api ./internal/wire ./internal/plugin ./internal/pki ./internal/orca ./internal/proxy ./internal/runtime/wasm ./internal/policy/route ./internal/ranges ./internal/importer/compose ./internal/importer/kubernetes ./internal/importer/oakestra

fuzz: ## the fuzz targets of FUZZ (what people and nodes send; . is all) for FUZZTIME (3s) each
	@tools/fuzz $(FUZZTIME) $(FUZZ)

# A virtual environment in bin, made again where what it has is another.
ilp: ## the scheduler plugin with an integer program: bin/ilp/bin/python plugins/ilp/ilp.py --help
	@tools/ilp

TIME ?= 30m
traffic: ## requests of all kinds for TIME (30m) while replicas come and go: none lost, nothing grows
	VERGE_TRAFFIC=$(TIME) go test -run '^TestMixedTraffic$$' -v -count 1 -timeout 24h ./e2e

OLDER ?= HEAD~100
older: ## today's version with an older one, of the commit OLDER=HEAD~100: roles become today's one by one
	@tools/older $(OLDER) bin/older
	VERGE_OLDER="$$PWD/bin/older" go test ./e2e -run '^TestOlderVersion$$' -count 1 -v

# N is the first N seeds from a random one on, which is printed; a list such as
# 1-100,7 is these. What fails says how to see it again, and keeps its logs.
SEEDS ?= 20
chaos: ## worlds in random trouble: SEEDS=50 new ones, SEEDS=7-7 that one again
	@tools/needs ip nft || echo "links will not fail"
	VERGE_CHAOS_SEEDS=$(SEEDS) go test -run '^TestChaos$$' -v -count 1 -timeout 24h ./e2e

# The experiments in full; each row that falls short is an error at the end.
LAB_RESULTS ?= bin/lab-results
lab: build ## the papers' experiments in full, as root: bin/lab-results/report.md
	@tools/needs nft
	@all=$$(bin/verge lab list -o json | awk -F '"' '$$2 == "name" { name = $$4 } $$2 == "missing" { name = "" } /^  }/ { if (name) print name; name = "" }'); \
	  bin/verge lab run $$all --dir $(LAB_RESULTS); failed=$$?; bin/verge lab report --dir $(LAB_RESULTS); exit $$failed

bench: ## benchmarks, with allocations
	go test -run '^$$' -bench . -benchmem ./...

# What a request costs that passes the router of a worker, beside HAProxy in the same
# run. ROUNDS of SPAN for each of a pair, in turns; ONLY=POST is what has that in its name.
ROUNDS ?= 7
SPAN   ?= 2s
bench-proxy: ## what a proxied request costs, beside HAProxy and ReverseProxy: ROUNDS=7 SPAN=2s ONLY=name
	@tools/needs haproxy
	@mkdir -p bin
	@$(GOBUILD) -o bin/proxybench ./tools/proxybench
	@bin/proxybench -rounds $(ROUNDS) -span $(SPAN) -only "$(ONLY)"

# What a request waits for that starts an instance. STARTS of each kind at the entry of
# its service and as many through the gateway; ONLY=process is what has that in its name.
STARTS    ?= 20
FUNCTIONS ?= 1000
bench-cold: build ## what a request waits for that starts an instance; STARTS=20 FUNCTIONS=1000 ONLY=name
	@$(GOBUILD) -o bin/coldbench ./tools/coldbench
	@bin/coldbench -rounds $(STARTS) -functions $(FUNCTIONS) -only "$(ONLY)"

# What a cluster orchestrator takes with thousands of workers, and a root with a thousand
# clusters. At full size some GB of memory and a quarter of an hour; WORKERS=0 is the root
# alone, CLUSTERS=0 the cluster alone. Workers keep their keys in MEMORY.
WORKERS   ?= 10000
INSTANCES ?= 10000
CLUSTERS  ?= 1000
MEMORY    ?= /dev/shm
bench-size: build ## a cluster with WORKERS=10000 hollow workers and INSTANCES=10000, a root with CLUSTERS=1000
	@$(GOBUILD) -o bin/sizebench ./tools/sizebench
	@bin/sizebench -workers $(WORKERS) -instances $(INSTANCES) -clusters $(CLUSTERS) -memory "$(MEMORY)"

# Not part of test: it compiles Kubernetes' client and plays 300 days, some minutes in all.
# Where go.mod of Verge has changed it may want "go mod tidy" in tools/kpacheck.
kpa-check: ## whether our form of Knative's autoscaler decides as Knative's own package does
	@mkdir -p bin
	CGO_ENABLED=0 go build -C tools/kpacheck -trimpath -ldflags "-s -w" -o ../../bin/kpacheck .
	@bin/kpacheck

footprint: build ## what root, cluster and worker cost, and containers (PART=containers: those alone)
	@$(GOBUILD) -o bin/footprint ./tools/footprint
	@bin/footprint $(if $(PART),-part $(PART))

clean: ## remove what was built
	rm -rf bin

# The parser of Prometheus, in a module of its own.
$(PACKAGER): $(wildcard tools/packages/*.go) tools/packages/go.mod tools/packages/go.sum
	@mkdir -p bin
	@echo "building the packager, this takes a minute the first time"
	go build -C tools/packages -o ../../$@ .
	@touch $@

$(PROMCHECK): tools/promcheck/main.go tools/promcheck/go.mod tools/promcheck/go.sum
	@mkdir -p bin
	@echo "building promcheck, this takes a minute the first time"
	CGO_ENABLED=0 go build -C tools/promcheck -trimpath -ldflags "-s -w" -o ../../$@ .
	@touch $@

# The linter is built from its sources, once, at the version that its own module
# pins. Cold that takes some minutes.
$(LINTER): tools/golangci/go.mod tools/golangci/go.sum
	@mkdir -p bin
	@echo "building golangci-lint, this takes some minutes the first time"
	CGO_ENABLED=0 go build -C tools/golangci -trimpath -ldflags "-s -w" -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@
