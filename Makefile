# make help lists the targets.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build

# Without this tag grpc's trace pages, which nobody serves, link the standard library's
# templates. These call methods by name, so the linker could drop no method at all.
export GOFLAGS += -tags=grpcnotrace

VERSION = $(shell tools/version)
GOBUILD = CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/verge-edge/verge/internal/obs.version=$(VERSION)"
LINTER  = bin/golangci-lint
PROMCHECK = bin/promcheck
PACKAGER  = bin/packager

.PHONY: help build demo check test fmt vet lint unit fuzz chaos quorum older traffic lab bench ilp bench-proxy bench-cold bench-size kpa-check footprint packages clean

# A line "##@ NAME" begins a group of targets.
help:
	@awk -F ':.*## ' '/^##@ / { printf "%s%s\n", n++ ? "\n" : "", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

##@ Build and try

build: ## bin/verge, bin/verge-lab and the examples' programs: static, stripped, with a version
	@mkdir -p bin
	$(GOBUILD) -o bin/verge ./cmd/verge
	$(GOBUILD) -o bin/verge-lab ./cmd/verge-lab
	$(GOBUILD) -o bin/guestbook-front ./examples/guestbook/front
	$(GOBUILD) -o bin/hello ./examples/hello
	$(GOBUILD) -o bin/boutique ./examples/boutique/service

# The same commit gives the same files. ARCHS are Go's names; COMPRESS is xz, gzip or none,
# for the .deb.
ARCHS    ?= amd64 arm64
RELEASE  ?= bin/packages
COMPRESS ?= xz
COMMITTED = $(shell git log -1 --format=%ct)
packages: $(PACKAGER) ## bin/packages: Debian packages and an image for ARCHS="amd64 arm64", SBOMs, checksums
	@$(GOBUILD) -o bin/manpages ./tools/manpages
	@set -e; in=$$(mktemp -d bin/parts.XXXXXX); trap 'rm -rf "$$in"' EXIT; \
	  for arch in $(ARCHS); do echo "building verge for $$arch"; GOARCH=$$arch $(GOBUILD) -o $$in/$$arch/ ./cmd/verge ./cmd/verge-lab; done; \
	  bin/manpages -out $$in/share -version $(VERSION) -time $(COMMITTED); \
	  $(PACKAGER) -version $(VERSION) -time $(COMMITTED) -compress $(COMPRESS) -in $$in -out $(RELEASE) $(ARCHS)

demo: build ## a guestbook over three clusters; kills a worker and the root. KEEP=1 leaves it running
	@tools/needs redis-server
	@echo "building the demo"
	@$(GOBUILD) -o bin/demo ./tools/demo
	@bin/demo $(if $(KEEP),--keep)

clean: ## remove what was built
	rm -rf bin

##@ Check

check: $(LINTER) ## formatting, vet, lint and tests of what differs from BASE=main, and of its importers
	@tools/check $(LINTER)

test: fmt vet lint unit fuzz ## everything that a change must pass

fmt: # every file is as gofmt writes it
	@files=$$(gofmt -l .); \
	  if [ -n "$$files" ]; then echo "not formatted (gofmt -w fixes it):"; echo "$$files"; exit 1; fi

# The command line is used on macOS as well: it has to build there.
vet:
	go vet ./...
	GOOS=darwin go build -o /dev/null ./cmd/verge

lint: $(LINTER) $(PROMCHECK) ## golangci-lint, and Prometheus' own check of deploy/monitoring
	$(LINTER) run
	$(PROMCHECK) deploy/monitoring/alerts.yaml deploy/monitoring/grafana-dashboard.json

# Unit tests, house rules and end to end. The race detector needs gcc, the end-to-end tests
# run the guestbook with redis-server. What is missing and cannot be installed is skipped,
# loudly; .ci/run allows no skips.
#
# Order and priorities:
# - Packages that several need are compiled first (go list -export), so that it happens once.
# - End-to-end tests run beside the others, without the race detector: they start the program
#   itself, which has none, and mostly wait. So do tests with containers and emulated links.
# - What computes runs at a lower priority (nice), and compilers at the lowest, so that
#   tests which wait for an answer within a time get the processor.
# - Code without goroutines has no races and takes a fifth of the time without the detector:
#   whole packages (pure), and in others (both) the files built without it. These run a
#   second time with -short, which leaves out tests that make namespaces.
# - A program with the race detector would sleep a second before it ends (GORACE).
#
# Two things may be missing in CI too: the solver of an example plugin, from Python's
# registry, and the version before, from the history.
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
	waiting="./internal/runtime/container ./internal/lab/experiments/..."; \
	"$${gotest[@]}" $$race -p 1 $$waiting > bin/waiting.log 2>&1 & waits=$$!; \
	trap 'for p in $$e2e $$waits; do pkill -P $$p; kill $$p 2> /dev/null; done' EXIT; \
	pure=$$(go list ./api/... ./internal/house ./internal/importer/... ./internal/sim/... ./internal/policy/... \
	  ./internal/quorum/{core,quorumtest} \
	  ./internal/cluster/{advisor,autoscale,check,demand,deschedule,edits,fleet,gateways,instances,jobs,lifecycle} \
	  ./internal/cluster/{localedit,moving,netlease,orders,pace,placement,planner,profile,proximity,reconcile,recovery} \
	  ./internal/cluster/{report,rollingupdate,rollouts,scheduling,secrets,state,upgrades,volumemove,volumes} \
	  ./internal/root/{check,counters,delegate,edits,jobs,lifecycle,localedit,namespaces,netlease,overflow,placement} \
	  ./internal/root/{reconcile,recovery,rehearsal,revisions,rollouts,routes,secrets,state,status}); \
	others=$$(go list ./... | grep -vxF "$$pure" | grep -vxF "$$(go list $$waiting)" | grep -v /verge/e2e); \
	nice -n 10 "$${gotest[@]}" $$race -p 2 $$others | tee bin/unit.log || failed=1; \
	both="./internal/lab/experiments/..."; \
	nice -n 10 "$${gotest[@]}" -short -p 2 $$pure $$([ -z "$$race" ] || echo $$both) | tee -a bin/unit.log || failed=1; \
	wait $$waits || failed=1; tee -a bin/unit.log < bin/waiting.log; \
	wait $$e2e || failed=1; tee -a bin/unit.log < bin/e2e.log; \
	[ -z "$$failed" ] || { tools/failed bin/unit.log; exit 1; }

FUZZTIME ?= 3s
FUZZ     ?= ./api ./api/descriptor ./internal/wire ./internal/bus/exchange ./internal/bus/logrecord ./internal/plugin ./internal/pki/tokens ./internal/orca ./internal/proxy/data ./internal/proxy/gateway ./internal/proxy/h2client ./internal/proxy/h2server ./internal/proxy/http1/message ./internal/runtime/wasm ./internal/policy/route ./internal/quorum/wal ./internal/ranges ./internal/importer/compose ./internal/importer/kubernetes ./internal/importer/oakestra

fuzz: ## random input to what people, nodes and functions send: FUZZ=packages (. is all), FUZZTIME=3s each
	@tools/fuzz $(FUZZTIME) $(FUZZ)

TIME ?= 30m
traffic: ## requests of all kinds for TIME=30m while replicas come and go: none lost, nothing grows
	VERGE_TRAFFIC=$(TIME) go test -run '^TestMixedTraffic$$' -v -count 1 -timeout 24h ./e2e

OLDER ?= HEAD~100
older: ## an upgrade from the commit OLDER=HEAD~100, role by role, and back
	@tools/older $(OLDER) bin/older
	VERGE_OLDER="$$PWD/bin/older" go test ./e2e -run '^TestOlderVersion$$' -count 1 -v

# SEEDS=20 is 20 seeds from a random one on, which is printed; SEEDS=1-100,7 is a list.
# A failure says how to repeat it, and keeps its logs.
SEEDS ?= 20
chaos: ## random failures: SEEDS=20 new ones, SEEDS=7-7 repeats one
	@tools/needs ip nft || echo "links will not fail"
	VERGE_CHAOS_SEEDS=$(SEEDS) go test -run '^TestChaos$$' -v -count 1 -timeout 24h ./e2e

# A failure says how to repeat its seed. 100,000 take an hour of one processor.
QUORUM_SEEDS ?= 100000
quorum: ## simulated servers of a tier and a nemesis: QUORUM_SEEDS=100000 of them
	nice go test ./internal/quorum/quorumtest -run '^TestSeeds$$' -count 1 -v -timeout 24h -seeds $(QUORUM_SEEDS)

##@ Measure

# A row that falls short, or an experiment that fails, is an error at the end. Results are
# kept in LAB_RESULTS, and the report has those of earlier runs too.
LAB_RESULTS ?= bin/lab-results
LAB_REPORT  ?= docs/lab-report.md
EXPERIMENTS ?=
lab: build ## experiments of the lab, as root, three hours: docs/lab-report.md. EXPERIMENTS="names": these alone
	@tools/lab $(LAB_RESULTS) $(LAB_REPORT) $(EXPERIMENTS)

bench: ## Go benchmarks, with allocations
	go test -run '^$$' -bench . -benchmem ./...

# The router of a worker and HAProxy in turns, ROUNDS of SPAN each; ONLY=POST measures what
# has that in its name.
ROUNDS ?= 7
SPAN   ?= 2s
bench-proxy: ## a proxied request, beside HAProxy and ReverseProxy: ROUNDS=7 SPAN=2s ONLY=name
	@tools/needs haproxy
	@mkdir -p bin
	@$(GOBUILD) -o bin/proxybench ./tools/proxybench
	@bin/proxybench -rounds $(ROUNDS) -span $(SPAN) -only "$(ONLY)"

# STARTS of each kind at the entry of its service, and as many through the gateway;
# ONLY=process measures what has that in its name.
STARTS    ?= 20
FUNCTIONS ?= 1000
bench-cold: build ## a request that starts an instance: STARTS=20 FUNCTIONS=1000 ONLY=name
	@$(GOBUILD) -o bin/coldbench ./tools/coldbench
	@bin/coldbench -rounds $(STARTS) -functions $(FUNCTIONS) -only "$(ONLY)"

# Full size takes some GB of memory and a quarter of an hour; WORKERS=0 measures the root
# alone, CLUSTERS=0 the cluster alone. Workers keep their keys in MEMORY.
WORKERS   ?= 10000
INSTANCES ?= 10000
CLUSTERS  ?= 1000
MEMORY    ?= /dev/shm
bench-size: build ## a cluster with WORKERS=10000 and INSTANCES=10000, a root with CLUSTERS=1000
	@$(GOBUILD) -o bin/sizebench ./tools/sizebench
	@bin/sizebench -workers $(WORKERS) -instances $(INSTANCES) -clusters $(CLUSTERS) -memory "$(MEMORY)"

# Not part of test: it compiles Kubernetes' client and plays 300 days, some minutes in all.
# After a change of Verge's go.mod it may need "go mod tidy" in tools/kpacheck.
kpa-check: ## compares our form of Knative's autoscaler with Knative's own package
	@mkdir -p bin
	CGO_ENABLED=0 go build -C tools/kpacheck -trimpath -ldflags "-s -w" -o ../../bin/kpacheck .
	@bin/kpacheck

footprint: build ## memory and processor time of root, cluster, worker and containers: PART=containers
	@$(GOBUILD) -o bin/footprint ./tools/footprint
	@bin/footprint $(if $(PART),-part $(PART))

# A virtual environment in bin, made again when its parts change.
ilp: ## installs the solver of plugins/ilp: bin/ilp/bin/python plugins/ilp/ilp.py --help
	@tools/ilp

# Tools in modules of their own.
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

# The linter is built once from source, at the version that its module pins: some minutes.
$(LINTER): tools/golangci/go.mod tools/golangci/go.sum
	@mkdir -p bin
	@echo "building golangci-lint, this takes some minutes the first time"
	CGO_ENABLED=0 go build -C tools/golangci -trimpath -ldflags "-s -w" -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@
