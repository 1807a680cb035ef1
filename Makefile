# The two commands of the README, and what they are made of.

.PHONY: run test cloud soak compare compare-all nova triangle values rocksmash tidy lint package surface

# Build, start the server, put this machine's own package index into it.
run:
	scripts/run.sh

# Install what the tests need, and run everything. One build serves all but the models: it can be
# killed at named points and have bugs planted, and does neither unless a test asks for it. Hostile
# bytes come in a quarter of the number that `cargo test` makes by itself; a soak makes many more. A
# real S3 server runs beside the tests.
test:
	scripts/setup.sh test
	TERRACE_FUZZ_PERCENT=$${TERRACE_FUZZ_PERCENT:-25} \
		scripts/s3.sh --or-without \
		cargo test --workspace --locked --features terrace-cli/fail-points,terrace-cli/planted-bugs,terrace/tokio
	scripts/models.sh
	TERRACE=$${CARGO_TARGET_DIR:-target}/debug/terrace scripts/test-clients.sh
	TERRACE=$${CARGO_TARGET_DIR:-target}/debug/terrace scripts/s3.sh --or-without \
		sh -c '[ -z "$${TERRACE_S3_URL:-}" ] || scripts/cloud.sh'

# A database that is larger than it may be on this disk, over a real S3 server on this machine.
cloud:
	scripts/cloud.sh

# Everything that looks for bugs by chance, for longer: make soak MINUTES=60 [SEED=n].
MINUTES ?= 60
SEED ?=
soak:
	scripts/soak.sh $(MINUTES) $(SEED)

# Terrace beside tuned RocksDB and fjall, or beside every store that is known here. The results go to
# docs/results/compare; building the others takes some twenty minutes.
compare:
	scripts/compare.sh
compare-all:
	scripts/compare.sh --all --out docs/results/compare-all

# The experiments of Nova-LSM with the paper's baselines, as the machine is and on an emulated disk:
# make nova [ROUNDS=3] [NAMES="nova-fig12a-onenode …"]. The results go to docs/results/nova-lsm.
ROUNDS ?= 3
NAMES ?=
nova:
	scripts/compare.sh experiment --rounds $(ROUNDS) $(or $(NAMES),nova)
	scripts/compare.sh experiment --rounds $(ROUNDS) --disk-profile ssd-2017 $(or $(NAMES),nova)

# The experiments of TriangleKV in the same way; persistent memory is emulated by /dev/shm. The results go to
# docs/results/trianglekv: make triangle [ROUNDS=3] [SCALE=0.25] [NAMES="triangle-fig15-steady …"].
SCALE ?= 0.25
triangle:
	scripts/compare.sh experiment --rounds $(ROUNDS) --scale $(SCALE) $(or $(NAMES),triangle)
	scripts/compare.sh experiment --rounds $(ROUNDS) --scale $(SCALE) --disk-profile ssd-2017 $(or $(NAMES),triangle)

# The value log beside Terrace without it and RocksDB with blob files and without: make values
# [ROUNDS=3] [NAMES="values-reads …"]. The results go to docs/results/value-log.
values:
	scripts/compare.sh experiment --rounds $(ROUNDS) $(or $(NAMES),values)

# The cloud tier on an emulated object store, beside everything local, everything in the store, and
# SlateDB: make rocksmash [ROUNDS=3] [SCALE=0.25] [NAMES="rocksmash-open …"]. The results go to
# docs/results/rocksmash.
rocksmash:
	scripts/compare.sh experiment --rounds $(ROUNDS) --scale $(SCALE) $(or $(NAMES),rocksmash)

# What a machine judges well about the source tree.
tidy:
	cargo xtask tidy

# List the library's public surface anew, after a change of it that is meant.
surface:
	cargo xtask surface write

# The library as a stranger gets it: packed, and built from its packages alone.
package:
	scripts/packages.sh

# Formatting, lints and docs, all with warnings as errors; the code as it is shipped, and with every
# feature. The comparison is not built here, but its lock file has to fit.
lint:
	cargo fmt --all --check
	cargo update --workspace --locked --quiet --manifest-path crates/terrace-bench-compare/Cargo.toml
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --workspace --all-targets --locked --all-features -- -D warnings
	cargo clippy --package terrace --locked --no-default-features -- -D warnings
	cargo clippy --package terrace --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	cargo xtask tidy
	cargo xtask surface
