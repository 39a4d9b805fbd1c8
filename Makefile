# Two commands: `make run` and `make test`. Everything else is here for people who work on Sluice.

CARGO  ?= cargo
SLUICE := target/release/sluice
QUICK  := target/quick/sluice
TESTED := $(abspath $(or $(CARGO_TARGET_DIR),target))/debug/sluice
DEMO   ?= --seconds 10 --sessions 2000

# The pinned toolchain under another name, if this machine has it so.
TOOLCHAIN := $(shell tools/toolchain.sh)
ifneq ($(TOOLCHAIN),)
export RUSTUP_TOOLCHAIN := $(TOOLCHAIN)
endif

.PHONY: run test build release deb unprofiled unit soak interop tested lint instructions sanitize bench fuzz clean setup-build setup-release setup-deb setup-test

run: build               ## build, then forward packets for ten seconds with a live view
	$(QUICK) demo $(DEMO)

test: unit interop       ## every test: crates, one-thread worlds, interop in network namespaces

build: setup-build       ## a first look, soon: the daemon and the demo, with less optimization and without benchmarks
	$(CARGO) build --profile quick --locked -p sluice --no-default-features --features demo

release: setup-release   ## what is deployed and measured: everything, compiled twice, for what its benchmarks execute
	SLUICE_COMMIT=$$(git describe --always --dirty 2>/dev/null) CARGO="$(CARGO)" tools/profiled_release.sh

unprofiled: setup-build  ## the same, compiled once
	SLUICE_COMMIT=$$(git describe --always --dirty 2>/dev/null) $(CARGO) build --release --locked -p sluice

deb: setup-deb $(if $(PROGRAM),,release) ## a Debian package in target/deb: of a release, or of PROGRAM, which is built
	tools/deb.sh $(or $(PROGRAM),$(SLUICE))

unit: setup-test
	$(CARGO) test --workspace --locked

soak: setup-test         ## the crates' tests with more inputs, drawn anew from a seed that is printed
	seed=$${SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; echo "make soak SEED=$$seed"; \
	PROPTEST_RNG_SEED=$$seed SLUICE_SEQUENCES_SEED=$$seed SLUICE_FUZZ_SEED=$$seed \
	PROPTEST_CASES=$${CASES:-2000} SLUICE_SEQUENCES=$${CASES:-2000} SLUICE_FUZZ=$${CASES:-2000} \
	$(CARGO) test --workspace --locked --no-fail-fast

interop: setup-test tested ## real partners in network namespaces, against the program that the crates' tests use: its arithmetic is checked
	SLUICE=$(TESTED) tests/interop/run

tested: setup-test       ## the crates' tests and their program, built
	$(CARGO) test --workspace --locked --no-run

lint:                    ## what CI checks besides the tests
	$(CARGO) fmt --all --check
	python3 tools/arrows.py
	python3 tools/lengths.py
	python3 tools/links.py
	python3 tools/words.py
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --locked
	$(CARGO) deny --log-level error check licenses bans sources
	$(CARGO) check --manifest-path fuzz/Cargo.toml --locked --target-dir $(or $(CARGO_TARGET_DIR),target)

instructions: setup-test ## what each stage of a worker executes for a packet, against the record
	tools/instructions.py

sanitize: setup-test     ## the crates without DPDK that hold unsafe code, and the worker, under AddressSanitizer
	tools/sanitize.sh

bench: unprofiled        ## figures of this machine, in less than two minutes; `sluice bench` takes those that count
	$(SLUICE) bench --quick

fuzz:                    ## each fuzz target for a minute; needs a nightly toolchain and cargo-fuzz
	tools/fuzz.sh 60

clean:
	$(CARGO) clean

setup-build:
	@tools/setup.sh build

setup-release:
	@tools/setup.sh release

setup-deb:
	@tools/setup.sh deb

setup-test:
	@tools/setup.sh test
