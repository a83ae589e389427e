# What a person types; `make` alone lists it. Each target sets up what it lacks.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup packages toolchain build checked compat deb python-aom demo thesis bench test lint lint-rust lint-python lint-libraries test-generated test-rust test-rust-documented test-rust-programs test-e2e test-alone test-finsy test-bmv2-cli test-clients test-clients-shell test-clients-stubs test-clients-ptf test-clients-go test-page test-deb clean
# make's own job server is not cargo's.
unexport MAKEFLAGS MFLAGS

PYTHON ?= python3
# What Python compiles is in one place, and nowhere among the sources.
export PYTHONPYCACHEPREFIX := $(CURDIR)/target/pycache
unexport PYTHONDONTWRITEBYTECODE
# ethtool and bridge are in sbin, which a Debian user's PATH lacks.
export PATH := $(PATH):/usr/sbin:/sbin

PIP_FLAGS := --quiet --no-input --disable-pip-version-check
IN_NAMESPACES := $(CURDIR)/scripts/in-namespaces
# A part of `make test`: where its minutes go is written down.
PART := scripts/part
# All that is tested is one build, with assertions: the programs that Python's tests start, Rust's test programs
# and lints, for Clippy's compiler makes the programs as well. What it makes is in a folder of its own.
CHECKED := CARGO_BUILD_BUILD_DIR=$(CURDIR)/target CARGO_TARGET_DIR=$(CURDIR)/target/checked \
	RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/scripts/checked-rustc cargo --config scripts/checked.toml
CHECKED_TEST := $(CHECKED) test --release --locked --workspace
CHECKED_BUILD := $(CHECKED) build --release --locked --quiet --workspace --all-targets

# `build` compiles these, and they are in PROGRAMS afterwards.
BUILD := cargo build --release --locked -p reprise -p reprise-conference -p reprise-switch -p simple-switch-cli -p reprise-signer -p aom-c \
	-p aom-bench -p pipeline-bench -p conference --lib --bins --example membership_churn
# What the package has, and what its manual is made of.
deb: BUILD := cargo build --release --locked -p reprise -p reprise-conference -p reprise-switch -p simple-switch-cli -p reprise-signer \
	-p manual --bins
# What a conference runs.
demo: BUILD := cargo build --release --locked -p reprise -p reprise-switch --bins
PROGRAMS := target/release
# For a test they are the checked ones.
test lint lint-% test-% checked: BUILD := env $(CHECKED) build --release --locked --workspace --lib --bins --examples
test lint lint-% test-% checked: PROGRAMS := target/checked/release
test lint lint-% test-%: export REPRISE_PROGRAMS = $(CURDIR)/$(PROGRAMS)

# Tests at once, Python's and those of each of the two of Rust's test programs that run: most wait more than they compute.
WORKERS ?= 4
PYTEST := .venv/bin/python -m pytest -p no:cacheprovider
# Those with the longest tests first, since a file's tests are one after the other.
PYTHON_TESTS := tests/e2e tests/service tests/study tests/operation tests/pisces tests/rows tests/lab tests/bench tests/srtp tests/model
# The first run is against a switch in memory, the second against reprise-switch.
FINSY_TESTS := .venv-finsy/bin/python -m pytest -p no:cacheprovider tests/finsy

help: ## this list
	@grep -E '^[a-z0-9-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

setup: packages toolchain .venv/stamp .venv-finsy/stamp .venv-bmv2-cli/stamp .venv-p4runtime-shell/stamp .venv-p4runtime-stubs/stamp .venv-ptf/stamp ## Debian packages, Python environments

# Packages of the lab's options are for CI: elsewhere their tests say what they lack.
packages:
	@$(PART) "Debian packages" scripts/install-packages $(if $(filter true,$(CI)),all)

toolchain:
	@scripts/check-toolchain

# Virtual environments: their lists of packages, and what these are.
.venv/stamp: lab/requirements.txt
.venv/stamp: OF := the lab
.venv-finsy/stamp: tests/finsy/requirements.txt
.venv-finsy/stamp: OF := a foreign client of P4Runtime
.venv-bmv2-cli/stamp: tests/bmv2_cli/requirements.txt
.venv-bmv2-cli/stamp: OF := BMv2's Thrift client
.venv-p4runtime-shell/stamp: tests/clients/shell/requirements.txt
.venv-p4runtime-shell/stamp: OF := p4runtime-shell, with P4Runtime's stubs of 1.4
.venv-p4runtime-stubs/stamp: tests/clients/stubs/requirements.txt
.venv-p4runtime-stubs/stamp: OF := P4Runtime's stubs of 1.5
# Without what PTF requires and its tests here do not: tests/clients/ptf/requirements.in.
.venv-ptf/stamp: tests/clients/ptf/requirements.txt
.venv-ptf/stamp: OF := PTF
.venv-ptf/stamp: private PIP_FLAGS += --no-deps

.venv-aom-build/stamp: python/aom/build-requirements.txt
.venv-aom-build/stamp: OF := the build of ordered multicast's package
.venv-aom-build/stamp: private PIP_FLAGS += --require-hashes --no-deps --only-binary :all:

# Python compiles of a package what is used, when it is.
.venv/stamp: | packages
	@echo "setup: .venv gets the Python packages of $(OF) ($(filter %.txt,$^))"
	@$(PYTHON) -m venv --clear .venv
	@$(PART) "Python packages of $(OF)" .venv/bin/python -m pip install --no-compile $(PIP_FLAGS) -r $(filter %.txt,$^)
	@touch $@

# .venv's pip serves the others.
.venv-%/stamp: | packages .venv/stamp
	@echo "setup: $(@D) gets the Python packages of $(OF) ($(filter %.txt,$^))"
	@$(PYTHON) -m venv --clear --without-pip $(@D)
	@$(PART) "Python packages of $(OF)" .venv/bin/python -m pip --python $(@D)/bin/python install --no-compile \
		$(PIP_FLAGS) -r $(filter %.txt,$^)
	@touch $@

build: toolchain ## the programs, in release
	$(PART) "programs, compiled" $(BUILD)

# After the programs, which the longest tests wait for.
checked: build ## what is tested, compiled: programs and Rust's tests, with lints
	$(PART) "Rust's tests and lints, compiled" env $(CHECKED_BUILD) --keep-going

# The binaries look at the name under which they are started.
compat: toolchain ## compat/bin: p4c, p4c-bm2-ss, simple_switch(_grpc), simple_switch_CLI and runtime_CLI, for PATH; compat/python
	cargo build --release --locked -p reprise -p reprise-switch -p simple-switch-cli
	@mkdir -p compat/bin
	@for name in p4c p4c-bm2-ss; do ln -sfn ../../target/release/reprise compat/bin/$$name; done
	@for name in simple_switch simple_switch_grpc; do \
		ln -sfn ../../target/release/reprise-switch compat/bin/$$name; done
	@for name in simple_switch_CLI runtime_CLI; do \
		ln -sfn ../../target/release/simple_switch_CLI compat/bin/$$name; done
	@ln -sfn ../python/bmv2 compat/python
	@echo "compat: PYTHONPATH=$(CURDIR)/compat/python has bmpy_utils, runtime_CLI and sswitch_CLI"
	@echo "compat: PATH=$(CURDIR)/compat/bin:\$$PATH make ..."

deb: build ## the Debian package, in target/debian
	@scripts/install-packages deb
	packaging/deb $(PROGRAMS) target/debian

python-aom: .venv-aom-build/stamp build ## the Python package of ordered multicast, in python/aom; its wheel in target/python
	cp crates/aom/c/include/aom.h $(PROGRAMS)/libaom_c.so python/aom/aom/
	@# It works in a folder of a random name, whose bytecode nobody reads again. Without isolation: that would fetch
	@# a setuptools whose hash nobody has looked at.
	env -u PYTHONPYCACHEPREFIX PYTHONDONTWRITEBYTECODE=1 \
		.venv/bin/python -m pip --python .venv-aom-build/bin/python wheel $(PIP_FLAGS) --no-build-isolation \
		--no-index --no-deps --wheel-dir target/python python/aom

demo: packages ## a conference, then the thesis' experiment in small; 8 minutes the first time
	@# Packages come over the network while the processors compile.
	@$(MAKE) --no-print-directory --jobs=2 BUILD='$(BUILD)' .venv/stamp build
	$(IN_NAMESPACES) .venv/bin/python -m lab.demo
	./reprise-lab run demo

thesis: packages .venv/stamp build ## the thesis' experiment whole, beside its figures; 2 hours
	./reprise-lab run thesis

bench: packages .venv/stamp build ## the switch beside its peers, engine by engine; 1.5 hours (BENCH=--quick: 8 minutes), as root
	@scripts/install-packages openvswitch || echo "bench: without Open vSwitch"
	@scripts/install-packages clang || echo "bench: without the relay in XDP"
	scripts/as-root ./reprise-lab run bench $(BENCH)

test: setup lint test-generated test-rust test-e2e test-finsy test-bmv2-cli test-clients test-page test-alone ## every test, and lint

lint: lint-rust lint-python lint-libraries ## formatting and lints of Rust, P4 and Python, and the libraries

lint-rust: checked
	cargo fmt --all --check
	$(PROGRAMS)/reprise fmt --check p4/*.p4 p4/*/*.p4
	@# Cargo repeats the warnings of what is built already.
	$(PART) "Rust's lints" scripts/silently env $(CHECKED_BUILD)

lint-python: .venv/stamp
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	$(PART) "Python's types" .venv/bin/mypy lab tests python/aom/aom python/conference/reprise_conference examples \
		packaging/monitoring

lint-libraries:
	@scripts/check-libraries

test-generated: checked ## the descriptors of P4Runtime and gNMI are current
	$(PART) "descriptors" env REPRISE_GENERATE=$(CURDIR)/$(PROGRAMS)/p4runtime-proto-generate \
		crates/formats/p4runtime-proto/regenerate.sh --check

test-rust: test-rust-documented test-rust-programs ## unit and golden tests

test-rust-documented: packages checked
	$(PART) "Rust's tests in documentation" env $(CHECKED_TEST) --quiet --no-fail-fast --doc

test-rust-programs: packages checked
	$(PART) "Rust's tests" env RUST_TEST_THREADS=$(WORKERS) $(PYTHON) scripts/rust-tests env $(CHECKED_TEST)

test-e2e: packages .venv/stamp .venv-finsy/stamp python-aom ## the whole in network namespaces: bursts, video, membership
	$(PART) "Python's tests" $(IN_NAMESPACES) $(PYTEST) -m "not alone" -n $(WORKERS) --dist loadfile \
		--no-loadscope-reorder $(PYTHON_TESTS)

test-alone: packages .venv/stamp .venv-finsy/stamp python-aom ## tests that measure and want the machine to themselves
	$(PART) --alone "Python's tests that measure" $(IN_NAMESPACES) $(PYTEST) -m alone $(PYTHON_TESTS)

test-finsy: packages .venv/stamp .venv-finsy/stamp build checked ## P4Runtime, by a client of others
	$(PART) "foreign client, switch in memory" $(FINSY_TESTS)
	$(PART) "foreign client, reprise-switch" $(IN_NAMESPACES) .venv/bin/python -m lab.beside_switch -- $(FINSY_TESTS)

test-bmv2-cli: packages .venv-bmv2-cli/stamp build ## Thrift, by BMv2's own client and by ours
	$(PART) "BMv2's client" .venv-bmv2-cli/bin/python -m pytest -p no:cacheprovider tests/bmv2_cli

test-clients: test-clients-shell test-clients-stubs test-clients-ptf test-clients-go ## P4Runtime, by four more clients of others

test-clients-shell: packages .venv-p4runtime-shell/stamp build
	$(PART) "p4runtime-shell" .venv-p4runtime-shell/bin/python -m pytest -p no:cacheprovider tests/clients/shell

# Stubs of two versions of P4Runtime, on protobufs that exclude each other; the later ones import with the
# implementation in Python only.
test-clients-stubs: packages .venv-p4runtime-shell/stamp .venv-p4runtime-stubs/stamp build
	$(PART) "P4Runtime's stubs of 1.4" .venv-p4runtime-shell/bin/python -m pytest -p no:cacheprovider tests/clients/stubs
	$(PART) "P4Runtime's stubs of 1.5" env PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python \
		.venv-p4runtime-stubs/bin/python -m pytest -p no:cacheprovider tests/clients/stubs

test-clients-ptf: packages .venv-ptf/stamp build
	$(PART) "PTF" $(IN_NAMESPACES) .venv-ptf/bin/python -m tests.clients.ptf.run

# GOTOOLCHAIN: the toolchain that is here, none that is fetched. Vetting would double the time.
test-clients-go: packages build
	@scripts/install-packages go
	$(PART) "Go client" env --chdir=tests/clients/go GOTOOLCHAIN=local GOFLAGS=-mod=readonly \
		go test -count=1 -vet=off .

tests/page/node_modules/.package-lock.json: tests/page/package-lock.json | packages
	@scripts/install-packages browsers
	$(PART) "packages of node.js" npm --prefix tests/page --silent ci
	@touch $@

test-page: tests/page/node_modules/.package-lock.json build ## the conference service's page, in Chromium and Firefox
	$(PART) "page in browsers" npm --prefix tests/page --silent test

test-deb: packages .venv/stamp checked ## the Debian package: made, checked, installed in a clean root, run there; as root
	@scripts/install-packages deb chroot
	$(PART) "Debian package" scripts/as-root $(PYTEST) tests/packaging

clean: ## all that was built, set up and measured
	rm -rf python/aom/build python/aom/aom.egg-info python/aom/aom/aom.h python/aom/aom/libaom_c.so
	rm -rf tests/page/node_modules target compat .venv .venv-finsy .venv-bmv2-cli .venv-p4runtime-shell .venv-p4runtime-stubs .venv-ptf .venv-aom-build \
		results
	find lab tests -name __pycache__ -prune -exec rm -rf {} +
	rm -rf .pytest_cache .mypy_cache .ruff_cache
