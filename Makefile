# `make` alone lists what can be made. Each target sets up what it needs.
#
# Release builds name programs and examples, never `--package`: with a package, Cargo leaves out features of libraries that only
# the other packages ask for, and builds the libraries and all that depends on them again for each choice of packages.

CARGO ?= cargo
CONFIG ?= belfry.toml
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup run demo demo-farm test test-fast check tidy deny bench-sip bench-ringer bench-ivr bench-memory bench-phones bench-store bench-import bench-xmpp bench-xmpp-idle bench-farm bench-start bench-console bench-all chaos abuse fuzz-short package docs

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install the system packages the build and the tests use, if any is missing
	@tools/setup

run: ## build and start one node on loopback with the example configuration
	@tools/setup run
	$(CARGO) run --release --bin belfry -- serve --config $(CONFIG)

demo: ## two good minutes, and the build before it: Ringer drives published tests in short (CommuniGate Pro's runs R1 and R4, Jabber XCP's users of chat, RestComm's tutorial) through a node, tables and reports; what is built already starts at once
	@tools/setup demo
	@bench/demo/run $(ARGS)

demo-farm: ## five minutes: calls of a minute through a farm of four nodes, and accounts at five on one database, with kills, beside CommuniGate Pro's runs R2, R3, R6 and R7
	@tools/setup
	@bench/farm/demo $(ARGS)

test: ## the gate: every test, with real peers: SIPp, Kamailio, baresip, ejabberd, Prosody, profanity and more
	@tools/setup build
	@echo "$(CARGO) build --workspace --bins --locked, while tools/setup brings what only the tests need"; \
	tools/setup & peers=$$!; $(CARGO) build --workspace --bins --locked; built=$$?; wait $$peers && exit $$built
	$(CARGO) xtask gate

test-fast: ## in two minutes or so: the tests without peers, sockets and real time; no substitute for the gate
	@tools/setup build
	$(CARGO) xtask gate --fast

check: ## formatting, lints and tidiness, without running the tests
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- --deny warnings
	$(CARGO) xtask tidy

tidy: ## dependency arrows, no clock in cores, lengths, licences
	$(CARGO) xtask tidy

deny: ## advisories, licences and bans through cargo-deny, where it is installed
	@command -v cargo-deny >/dev/null || { echo "cargo-deny is not installed: cargo install cargo-deny --locked"; exit 1; }
	cargo-deny check

bench-sip: ## Belfry, Kamailio and a bare relay in turn under SIPp; ARGS="--help" lists the options
	@tools/setup
	$(CARGO) build --release --bin belfry --example relay --locked
	@bench/sip/run $(ARGS)

bench-memory: ## resident bytes of a binding and of a lingering transaction
	@tools/setup
	$(CARGO) build --release --bin belfry --locked
	@bench/memory/run $(ARGS)

bench-phones: ## resident bytes of a registered, silent phone by transport, and of Ringer, which plays it
	@tools/setup
	$(CARGO) build --release --bin belfry --bin ringer --locked
	@bench/sip/phones $(ARGS)

bench-store: ## size of the database under REGISTERs and calls; ARGS="--minutes 6" for a short one
	@tools/setup
	$(CARGO) build --release --bin belfry --locked
	@bench/store/run $(ARGS)

bench-import: ## accounts imported into the file and into PostgreSQL; ARGS="--accounts 25000000 --folder /srv" for a long one
	@tools/setup
	$(CARGO) build --release --bin belfry --locked
	@bench/import/run $(ARGS)

bench-ringer: ## Ringer and SIPp in turn, both ends the same tool; ARGS="--help" lists the parts
	@tools/setup
	$(CARGO) build --release --bin ringer --locked
	@bench/ringer/run $(ARGS)

bench-ivr: ## RestComm's load test of programmable voice, then raised; ARGS="--help" lists the parts
	@tools/setup
	$(CARGO) build --release --bin belfry --bin ringer --example ivr_application --example streams --locked
	@bench/ivr/run $(ARGS)

bench-xmpp: ## Belfry, ejabberd and Prosody under the same users of Ringer: memory, CPU, latencies; ARGS="--help" lists the parts
	@tools/setup
	$(CARGO) build --release --bin belfry --bin ringer --locked
	@bench/xmpp/mix $(ARGS)

bench-xmpp-idle: ## Belfry and ejabberd with 8,000 silent chat clients, CPU of a sign-in; ARGS="--help" lists the parts
	@tools/setup
	$(CARGO) build --release --bin belfry --bin ringer --example xmpp_load --locked
	@bench/xmpp/run $(ARGS)

bench-farm: ## a farm's cost by its shape, the published R2, R3, R6 and R7, the growth of chat's cost by nodes, kills, pauses and partitions; ARGS="kills --help" lists a part's options
	@tools/setup
	@bench/farm/run $(ARGS)

bench-start: ## time of a start, empty and with a million bindings; idle memory, size of the program
	$(CARGO) build --release --bin belfry --example binding_rows --locked
	@BINDING_ROWS=$${CARGO_TARGET_DIR:-target}/release/examples/binding_rows bench/start/run $(ARGS)

bench-console: ## the operators' console with 10,000 chat sessions and as many registrations: GETs of /v1/admin, and its pages in Chromium
	@tools/setup
	$(CARGO) build --release --bin belfry --bin ringer --example binding_rows --locked
	@BINDING_ROWS=$${CARGO_TARGET_DIR:-target}/release/examples/binding_rows bench/console/run $(ARGS)

bench-all: ## every bench in short and one table of ratios, compared with the kept one; exit code 99 if a row is worse by a tenth (25 minutes)
	@tools/setup
	$(CARGO) build --release --locked --bin belfry --bin ringer \
		--example relay --example ivr_application --example xmpp_load --example messages --example binding_rows
	@programs=$${CARGO_TARGET_DIR:-target}/release; BELFRY=$$(realpath $$programs/belfry) RINGER=$$(realpath $$programs/ringer) MESSAGES=$$(realpath $$programs/examples/messages) \
		BINDING_ROWS=$$(realpath $$programs/examples/binding_rows) bench/all $(ARGS)

chaos: ## an hour of kills, pauses, cuts, drains and failures of PostgreSQL and NATS on a farm of eight, by a seed; ARGS=--short for ten minutes, ARGS=--minute for one
	@tools/setup
	$(CARGO) build --release --bin belfry --bin ringer --locked
	$(CARGO) run --release --quiet --example chaos --locked -- $(ARGS)

abuse: ## two minutes of floods against a node that serves calls and chats meanwhile; ARGS="--help" lists the parts
	@tools/setup
	$(CARGO) build --release --bin belfry --bin ringer --locked
	@bench/abuse/run $(ARGS)

docs: ## the documentation as a site, in target/docs; installs mdBook into target/peers when it is missing
	@tools/docs

package: ## Debian packages of belfry (service, manual pages, completions and, after make docs, the documentation) and ringer, and a tarball, in target/package; ARGS="--version 0.2.0"
	@tools/setup build
	$(CARGO) build --release --bin belfry --bin ringer --locked
	$(CARGO) build --release --example pages --example ringer_pages --locked
	@tools/docs --if-there
	@tools/package $(ARGS)

fuzz-short: ## every fuzz target for a minute (needs nightly and cargo-fuzz)
	@tools/fuzz-short
