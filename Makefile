# Thin: every target is one command that can be typed instead. `make try` and `make test` are the two that matter.

CARGO ?= cargo
TEST  ?= $(CARGO) test --locked --no-fail-fast

.PHONY: help deps try test unit m0 m1 m2 m3 m4 m5 m6 smoke conformance bench test-vm tidy fmt fmt-check lint bundle upstream oracle

help: ## this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

deps: ## install what the build needs, saying what and why
	packaging/build-deps.sh

try: deps bundle ## a throw-away node in its own namespaces; ARGS=--demo deploys a web service, shows it and ends
	bundle/current/bin/copepod try $(ARGS)

test: deps fmt-check lint tidy bundle oracle ## everything that .ci/run checks
	REQUIRE_NODE=1 REQUIRE_NETNS=1 $(TEST) --workspace
	$(CARGO) xtask conformance run --smoke --parallel 4 --if-built

unit: ## unit tests only
	$(TEST) --workspace --lib --bins

m0: tidy unit bundle ## ground: tree rules, unit tests, bundle

m2: upstream oracle ## the kubelet with no API, then under upstream's API server
	REQUIRE_NODE=1 $(TEST) -p copepod-kubelet --test it

m1 m3 m4 m6: bundle oracle ## one milestone's end-to-end test
	$(TEST) -p copepod-e2e --test $@

m5: bundle ## Services and names, in nftables and iptables mode
	$(TEST) -p copepod-e2e --test m5 --test m5_iptables

m1: oracle # upstream's controller-manager and scheduler run on our API server

smoke: bundle ## quick specs of upstream's conformance suite, as in CI
	$(CARGO) xtask conformance run --smoke --parallel 4

conformance: bundle ## upstream's whole conformance suite, about an hour; writes docs/conformance.md
	$(CARGO) xtask conformance run --parallel 4

bench: bundle ## measure footprint and latency; prints JSON and a table
	$(CARGO) run --locked --release -p copepod-bench -- $(ARGS)
	$(CARGO) bench --locked -p copepod-dataplane

test-vm: bundle ## install, use, reboot and uninstall in a virtual machine with systemd
	packaging/vm/run.sh

upstream: ## upstream's programs that are shipped, built once into ~/.cache/copepod
	$(CARGO) xtask upstream build

oracle: ## upstream's five components and the test tools, built once into ~/.cache/copepod
	$(CARGO) xtask upstream build oracle test

bundle: ## release build, images and archive in bundle/
	$(CARGO) xtask bundle

tidy: ## layer edges, file sizes, names
	$(CARGO) xtask tidy

fmt: ## format everything
	$(CARGO) fmt --all

fmt-check:
	$(CARGO) fmt --all --check

lint: ## clippy, warnings are errors
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
