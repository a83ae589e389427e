# What a person types; `make` alone lists it. Each target sets up what it lacks.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup packages toolchain build compat python-aom demo thesis bench test lint test-generated test-rust test-e2e test-finsy clean

PYTHON ?= python3
export PYTHONDONTWRITEBYTECODE := 1
# ethtool and bridge are in sbin, which a Debian user's PATH lacks.
export PATH := $(PATH):/usr/sbin:/sbin

PIP_INSTALL := -m pip install --quiet --no-input --disable-pip-version-check
IN_NAMESPACES := $(CURDIR)/scripts/in-namespaces
# Rust's tests make network namespaces too.
CARGO_TEST_RUNNER := target."cfg(unix)".runner=["$(IN_NAMESPACES)"]

# The first run is against a switch in memory, the second against reprise-switch.
FINSY_TESTS := .venv-finsy/bin/python -m pytest -p no:cacheprovider tests/finsy

help: ## this list
	@grep -E '^[a-z0-9-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

setup: packages toolchain .venv/stamp .venv-finsy/stamp ## Debian packages, Python environments

packages:
	@scripts/install-packages

toolchain:
	@scripts/check-toolchain

.venv/stamp: lab/requirements.txt | packages
	@echo "setup: .venv gets the lab's Python packages ($<)"
	@$(PYTHON) -m venv --clear .venv
	@.venv/bin/python $(PIP_INSTALL) -r $<
	@touch $@

.venv-finsy/stamp: tests/finsy/requirements.txt | packages
	@echo "setup: .venv-finsy gets a P4Runtime client of others ($<)"
	@$(PYTHON) -m venv --clear .venv-finsy
	@.venv-finsy/bin/python $(PIP_INSTALL) -r $<
	@touch $@

build: toolchain ## the programs, in release
	cargo build --release --locked -p reprise -p reprise-switch -p reprise-signer -p aom-c -p aom-bench -p pipeline-bench

# The binary looks at the name under which it is started.
compat: toolchain ## compat/bin: the compiler under the names p4c and p4c-bm2-ss, for PATH
	cargo build --release --locked -p reprise
	@mkdir -p compat/bin
	@for name in p4c p4c-bm2-ss; do ln -sfn ../../target/release/reprise compat/bin/$$name; done
	@echo "compat: PATH=$(CURDIR)/compat/bin:\$$PATH make ..."

python-aom: build ## the Python package of ordered multicast, in python/aom; its wheel in target/python
	cp crates/aom-c/include/aom.h target/release/libaom_c.so python/aom/aom/
	$(PYTHON) $(PIP_INSTALL:install=wheel) --no-deps --wheel-dir target/python python/aom

demo: packages .venv/stamp build ## a conference, then the thesis' experiment in small; 6 minutes
	$(IN_NAMESPACES) .venv/bin/python -m lab.demo
	./reprise-lab run demo

thesis: packages .venv/stamp build ## the thesis' experiment whole, beside its figures; 2 hours
	./reprise-lab run thesis

bench: packages .venv/stamp build ## the switch beside its peers, engine by engine; 20 minutes, as root
	@scripts/install-packages openvswitch || echo "bench: without Open vSwitch"
	scripts/as-root ./reprise-lab run bench $(BENCH)

test: setup lint test-generated test-rust test-e2e test-finsy ## every test, and lint

lint: toolchain .venv/stamp ## formatting and lints of Rust, P4 and Python
	cargo fmt --all --check
	cargo run --locked --quiet -p reprise -- fmt --check p4/*.p4 p4/*/*.p4
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy lab tests python/aom/aom examples

test-generated: toolchain ## the code generated from the P4Runtime protocol is current
	crates/p4runtime-proto/regenerate.sh --check

test-rust: packages toolchain ## unit and golden tests
	cargo test --workspace --locked --quiet --no-fail-fast --config '$(CARGO_TEST_RUNNER)'

test-e2e: packages .venv/stamp .venv-finsy/stamp python-aom ## the whole in network namespaces: bursts, video, membership
	@# Packages of the lab's options: elsewhere their tests say what they lack.
	@[ "$${CI:-}" != true ] || scripts/install-packages openvswitch rtpengine gstreamer janus
	cargo build --release --locked --quiet -p conference --example membership_churn
	$(IN_NAMESPACES) .venv/bin/python -m pytest -p no:cacheprovider tests/lab tests/rows tests/study tests/bench tests/pisces tests/operation tests/e2e

test-finsy: packages .venv/stamp .venv-finsy/stamp build ## P4Runtime, by a client of others
	$(FINSY_TESTS)
	$(IN_NAMESPACES) .venv/bin/python -m lab.beside_switch -- $(FINSY_TESTS)

clean: ## all that was built, set up and measured
	rm -rf python/aom/build python/aom/aom.egg-info python/aom/aom/aom.h python/aom/aom/libaom_c.so
	rm -rf target compat .venv .venv-finsy results
	find lab tests -name __pycache__ -prune -exec rm -rf {} +
	rm -rf .pytest_cache .mypy_cache .ruff_cache
