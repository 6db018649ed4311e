# Each target is one script in scripts/; this file only names them. A description after `##` is for `make help`,
# after `#+` for `make help-all`.

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*#[\#+].*/\1/p' Makefile)

# Arguments for the programs behind the targets: make demo DEMO_ARGS="--trace FILE"
DEMO_ARGS ?=
TEST_ARGS ?=
BENCH_ARGS ?=
# What bench-instructions counts: server, proxy, ring or fill
PART ?= server

help: ## List the targets that people need
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

help-all: ## List all targets
	@awk -F ':.*#[\#+] ' '/^[a-z-]+:.*#[\#+] / { printf "  make %-22s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: ## Install what is missing, build, run a small cluster and show what balancing does (DEMO_ARGS="...")
	@scripts/demo.sh $(DEMO_ARGS)

build: ## Build the evenkeel binary: target/release/evenkeel
	@scripts/build.sh

dist: ## Build the binary to ship and to measure, optimized across crates: target/dist/evenkeel
	@scripts/dist.sh

check: ## The inner loop: formatting, clippy, unit tests without processes
	@scripts/test.sh check $(TEST_ARGS)

test: ## What a change must pass: install what the tests compare with, then every check and test (TEST_ARGS="...")
	@scripts/test.sh test $(TEST_ARGS)

test-nightly: ## What takes longer: the dist binary, all seeds, all clients, io_uring everywhere, the model, sanitizers
	@scripts/test.sh nightly $(TEST_ARGS)

house: #+ Lines of code, harness and tests by crate; imports that run back up, import circles, types with many impl files, words to avoid
	@scripts/house.py

deps: #+ Install what the tests need: memcached, its tools, etcd, clients in Python and Go
	@scripts/test-deps.sh

conformance: #+ All comparisons with a real memcached, and real clients of six languages
	@scripts/conformance.sh

differential: #+ Random sessions to memcached and to a server, compared, for DIFFERENTIAL_SECONDS
	@scripts/differential.sh

fuzz: #+ Fuzz the parsers, the store and the proxy, FUZZ_SECONDS each (nightly Rust)
	@scripts/fuzz.sh

asan: #+ Tests of the crates with unsafe code under AddressSanitizer (nightly Rust)
	@scripts/asan.sh

bench-worker: #+ One pinned worker beside memcached -t 1, in the same run (BENCH_ARGS="...")
	@scripts/bench-worker.sh $(BENCH_ARGS)

bench-server: ## The server beside memcached and an echo server, with the goals: table and JSON (BENCH_ARGS="--quick")
	@scripts/bench-server.sh $(BENCH_ARGS)

bench-proxy: #+ The proxy beside memcached's own and twemproxy, with the goals: table and JSON (BENCH_ARGS="--quick")
	@scripts/bench-proxy.sh $(BENCH_ARGS)

experiments-small: #+ All experiments at the scale of two cores: tables, JSON and plots in target/experiments
	@scripts/experiments.sh small

model: #+ Every interleaving of larger stories of hot keys: minutes, and a few GiB of memory (EVENKEEL_SCOPE="...")
	@scripts/model.sh

soak: #+ Random and hostile clients against the server for SOAK_SECONDS (default 600)
	@scripts/soak.sh

chaos: #+ Kill and stop processes under load for CHAOS_SECONDS (default 600) and judge every answer: of a cluster, or WHAT=pools, rings, copies, racks or scaling
	@scripts/chaos.sh

bench-neighbours: #+ A small get while others do not read, send halves of stores or connect by thousands: server, proxy, memcached
	@scripts/dist.sh
	@scripts/bench-neighbours.py

bench-storage: #+ A store for each thread beside shared caches under locks, in one process (BENCH_ARGS="...")
	@scripts/bench-storage.sh $(BENCH_ARGS)

bench-hit-ratio: #+ Hit ratios beside memcached with the same memory on the traces of ../shared/data (BENCH_ARGS="...")
	@scripts/bench-hit-ratio.sh $(BENCH_ARGS)

tsan: #+ Tests of the queues between threads under ThreadSanitizer (nightly Rust)
	@scripts/tsan.sh

bench-instructions: #+ Instructions of a request under callgrind, each against its limit; needs no quiet machine
	@scripts/bench-instructions.sh $(PART)
