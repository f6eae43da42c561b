# `make run` trains the quickstart, `make test` passes every test. Both fetch what they need first, once.
SHELL := /bin/bash
export LIBTORCH ?= $(CURDIR)/.libtorch/torch
export DUCKDB_LIB_DIR ?= $(CURDIR)/.duckdb
CARGO ?= cargo
# Tests wait for libtorch, files and processes: own code that isn't optimised is built in nine minutes instead of thirteen.
UNOPTIMISED := $(foreach p,flow flow-checkpoint flow-dataflow flow-model flow-pipeline flow-policy flow-rollout flow-serve flow-study flow-text,--config profile.release.package.$p.opt-level=0)
# Only what wasn't named by the caller is fetched.
FETCH := $(if $(filter $(CURDIR)/.libtorch/torch,$(LIBTORCH)),libtorch) $(if $(filter $(CURDIR)/.duckdb,$(DUCKDB_LIB_DIR)),libduckdb)

.PHONY: run test test-checkpoint test-core test-credit test-dataflow test-env test-int8 test-log test-model test-pipeline test-rollout test-serve test-text test-study wheel release watched test-python test-container test-view view door drift environments environment-faults build check without-torch doc libtorch libduckdb pyarrow interop parity bench schema compare survive digests killed network faults staleness fuzz generated coverage invariance hostile reproduce parity-models parity-webshop interop-models tensorboard bench-gpu demo-gpu bench-functions leaderboard train-env train-parity tinker-env tinker-parity servers nightly deny conformance

run: build
	@echo "flow: training pipelines/quickstart.yaml"
	@target/release/flow run pipelines/quickstart.yaml

build: $(FETCH)
	@echo "flow: building (it takes several minutes the first time)"
	@$(CARGO) build --release

# One libtorch thread: OpenMP's spinning threads get in each other's way. `make build` puts the fast program back.
test: test-python $(FETCH)
	@echo "flow: building and running the tests (some sixteen minutes the first time)"
	OMP_NUM_THREADS=1 $(CARGO) test --release $(UNOPTIMISED)

# An edit of one package is tested in seconds, once its dependencies are built for it. dataflow and rollout need libtorch. ARGS names tests.
test-dataflow test-log test-rollout: $(FETCH)
test-checkpoint test-core test-credit test-dataflow test-env test-int8 test-log test-model test-pipeline test-rollout test-serve test-text: test-%:
	@$(CARGO) test --release --config profile.release.package.flow-$*.opt-level=0 -p flow-$* --lib $(ARGS)

# `flow study` without its runs: statistics, cells, pages.
test-study: $(filter libduckdb,$(FETCH))
	@$(CARGO) test --release --config profile.release.package.flow-study.opt-level=0 -p flow-study $(ARGS)

# The Python packages, the ideas in Python and the reference of conformance: only functions, the reference and GGUF files need other packages.
test-python: pyarrow .gguf/made-from
	@cd python && PYTHONPATH=$(CURDIR)/.pyarrow:$(CURDIR)/.gguf python3 -m unittest discover -t . -s tests
	@cd examples/ideas && PYTHONPATH=$(CURDIR)/.pyarrow:$(CURDIR)/python python3 -m unittest
	@cd conformance && PYTHONPATH=$(CURDIR)/.pyarrow python3 -m unittest test_reference
	@cd papers/audit/leaderboard && PYTHONPATH=$(CURDIR)/.pyarrow:$(CURDIR)/python python3 -m unittest

# What reads GGUF files. The numpy is that of .pyarrow.
.gguf/made-from: python/flow_runs/gguf.txt
	@rm -rf .gguf
	@python3 -m pip install -q --disable-pip-version-check --root-user-action ignore --no-deps --require-hashes -r $< --target .gguf
	@rm -rf .gguf/bin .gguf/numpy*
	@cp $< $@

# Programs, tools and tasks in real containers: FLOW_TEST_IMAGE names an image with Python 3 and bash that is on this machine. ENGINES=docker tests one client.
# Without a daemon, a client or the image it fails; `make test-python` skips these tests.
test-container: .venv-containers/made-from
	cd python && FLOW_TEST_ENGINES="$(or $(ENGINES),docker podman)" ../.venv-containers/bin/python -W ignore -m unittest tests.test_container tests.test_container_client tests.test_container_tasks

.venv-containers/made-from: python/flow_env/requirements/program.txt python/flow_env/requirements/mcp.txt
	rm -rf .venv-containers && python3.11 -m venv .venv-containers
	.venv-containers/bin/pip install -q --disable-pip-version-check -r python/flow_env/requirements/program.txt
	.venv-containers/bin/pip install -q --disable-pip-version-check -r python/flow_env/requirements/mcp.txt
	cat $^ > $@

# The pages of `flow view` in a real Chromium, which is installed where there is none; needs npm. PICTURES=FOLDER keeps a picture of each page.
test-view: view/node_modules/made-from
	@scripts/get-chromium.sh
	node --test --test-concurrency=1 tests/view/pages.mjs tests/view/questions.mjs

# The pages of `flow view`, built anew from view/src into src/cli/view/assets, which is committed: building flow needs no npm.
view: view/node_modules/made-from
	cd view && npm run build

view/node_modules/made-from: view/package-lock.json
	cd view && npm ci --no-audit --no-fund --silent
	cp view/package-lock.json $@

# The field's environments on their real packages, twice each, written to docs/environments-played.md. ARGS names some: ARGS="gymnasium scienceworld".
environments:
	python3 python/environments.py $(ARGS)

# Real environments that fail in one step of a hundred: a JVM that dies, one that stops, a browser that stops, a server that answers with an error.
environment-faults: build
	python3 tests/soak/environment_faults.py $(ARGS)

# A flow that needs no libtorch and no C++ compiler: servers and trainers compute its models, and the losses are tested without libtorch.
without-torch: $(filter libduckdb,$(FETCH))
	env -u LIBTORCH $(CARGO) clippy --release --no-default-features -p flow -- -D warnings
	env -u LIBTORCH $(CARGO) test --release --no-default-features -p flow-policy --lib

# What CI checks beside the tests.
check: $(FETCH)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --no-deps

libtorch:
	@scripts/get-libtorch.sh
libduckdb:
	@scripts/get-duckdb.sh
pyarrow:
	@scripts/get-pyarrow.sh

schema: build
	target/release/flow schema > schemas/flow.schema.json
	target/release/flow schema --study > schemas/study.schema.json
	target/release/flow ops --columns > schemas/columns.md
	target/release/flow ops --reference > docs/reference.md
	python3 scripts/stubs.py

# The log of a run, read by DuckDB and Polars from PyPI, row by row the same as by `flow query`.
interop: build
	run=$$(mktemp -d)/run && target/release/flow run pipelines/quickstart.yaml --set iterations=2 --out $$run && python3 scripts/interop.py $$run

# What `flow export` writes, read by TensorBoard from PyPI, number by number the same as by `flow query`.
tensorboard: build
	run=$$(mktemp -d)/run && target/release/flow run pipelines/quickstart.yaml --set iterations=2 --out $$run && python3 scripts/events.py $$run $$run-board

# A run's figures in W&B, MLflow, OpenTelemetry and Prometheus, read back by their own clients and held against `flow query`.
watched: build .venv-watched/made-from
	run=$$(mktemp -d)/run && target/release/flow run pipelines/quickstart.yaml --set iterations=2 --out $$run && .venv-watched/bin/python scripts/watch.py $$run

.venv-watched/made-from: scripts/watch.txt
	rm -rf .venv-watched && python3 -m venv .venv-watched
	.venv-watched/bin/pip install -q --disable-pip-version-check -r scripts/watch.txt
	cp scripts/watch.txt $@

# Sokoban against gym-sokoban 0.0.6: 1,000 action sequences on the same rooms.
parity:
	$(CARGO) build --release -p flow-env --example sokoban_steps
	python3 scripts/parity.py

# WebShop's reward against the published code on 2,000 purchases, its ranking against Lucene's on 200 searches (Java 17 is needed).
parity-webshop:
	python3 scripts/parity_webshop.py

# The losses and advantages of flow, verl, TRL, OpenRLHF and SkyRL against conformance/cases; the page's table. PRIME_RL=CHECKOUT holds prime-rl.
conformance: build .venv-conformance/made-from
	.venv-conformance/bin/python conformance/test_reference.py
	OMP_NUM_THREADS=1 FLOW_CONFORMANCE=$(CURDIR)/target/conformance.json $(CARGO) test --release $(UNOPTIMISED) --lib conformance
	for library in verl trl openrlhf skyrl $(if $(PRIME_RL),prime-rl); do \
	  .venv-conformance/bin/python -W ignore conformance/run.py --library $$library || exit 1; done
	.venv-conformance/bin/python conformance/run.py --library flow --losses target/conformance.json
	.venv-conformance/bin/python conformance/run.py --table

.venv-conformance/made-from: conformance/peers/requirements.txt
	rm -rf .venv-conformance && python3.11 -m venv .venv-conformance
	.venv-conformance/bin/pip install -q --disable-pip-version-check --no-deps -r conformance/peers/requirements.txt
	cp conformance/peers/requirements.txt $@

# Every ratio in benches/README.md.
bench: build
	scripts/bench.sh

# Decoding and training on a GPU, beside transformers and as a share of what it can do (benches/gpu.py). ARGS="--shapes 0.5b" measures one size.
bench-gpu: $(FETCH) .venv-parity/made-from
	.venv-parity/bin/python benches/gpu.py $(ARGS)

# The demonstrations for a GPU (benches/gpu), with tiny models on CPUs: flow_train beside a plain loop, a vLLM beside a bare client, the model that fits, three kills.
# Needs a vLLM for CPUs (scripts/get-vllm.sh .venv-vllm, or FLOW_VLLM_PYTHON). ARGS="b" runs some.
demo-gpu: build $(if $(FLOW_TRAIN_PYTHON),,.venv-parity/made-from)
	TINY=1 MAIN=$(CURDIR) OMP_NUM_THREADS=1 FLOW=$(CURDIR)/target/release/flow FLOW_TRAIN_PYTHON=$(or $(FLOW_TRAIN_PYTHON),$(CURDIR)/.venv-parity/bin/python) \
		FLOW_VLLM_PYTHON=$(or $(FLOW_VLLM_PYTHON),$(CURDIR)/.venv-vllm/bin/python) benches/gpu/demo.sh $(or $(ARGS),b c d e)

# A function in Python beside a bare Arrow round trip, and a loss in Python beside the built-in one (benches/functions.py). ARGS="--pairs 9" measures more.
bench-functions: build pyarrow
	OMP_NUM_THREADS=1 PYTHONPATH=$(CURDIR)/.pyarrow python3 benches/functions.py $(ARGS)

# The leaderboard of credits: plays, audits, replays and writes papers/audit/leaderboard/README.md, and goes on where it stopped. ARGS="--seeds 2" does less.
leaderboard: build pyarrow
	python3 papers/audit/leaderboard/leaderboard.py $(ARGS)

# Two wheels for Linux in dist/: flow-rl, without PyTorch, and its half for environments that have PyTorch 2.11 to 2.15.
wheel release: export FLOW_COMMIT ?= $(shell git rev-parse --short HEAD)
wheel: build
	scripts/wheel.sh dist

# The wheels, a tarball, what they are made of, the changelog's section, and checksums, in dist/.
release: build
	scripts/release.sh dist

# A run killed at 50 random instants ends, resumed, with the same bits.
survive: build
	python3 tests/soak/survive.py

# Every soak test, one after the other, with a report: for a night. ARGS="survive killed" does some; a test without what it needs is skipped, and says so.
nightly: build pyarrow .gguf/made-from
	@scripts/nightly.sh $(ARGS)

# Advisories, licences and sources of all dependencies, by deny.toml; cargo-deny is built where it is missing, which takes minutes. Asks the advisory database.
DENY := 0.20.2
deny:
	@command -v cargo-deny > /dev/null || $(CARGO) install --locked --version $(DENY) cargo-deny
	$(CARGO) deny check

# Readers of pipelines, manifests, Parquet files and rows on a million damaged inputs; nothing may panic or hang.
fuzz: $(FETCH)
	$(CARGO) test --release --lib --test fuzz --no-run
	FLOW_FUZZ=700000 $(CARGO) test --release --lib no_text_makes_it_panic -- --nocapture
	FLOW_FUZZ=120000 TMPDIR=$${TMPDIR:-/dev/shm} $(CARGO) test --release --test fuzz -- --nocapture

# Thousands of hostile commands and files: damaged runs, weights, models, panels, odd settings, broken programs. Hours; ARGS="--sample 500" takes some.
hostile: build pyarrow .gguf/made-from
	python3 tests/soak/hostile.py $(ARGS)

# How much faster staleness 1 is than 0 where the environment takes as long as the update.
staleness: build
	python3 tests/soak/staleness.py

# Valid pipelines drawn at random, each on 1, 2 and 4 workers with one digest. N=1000 draws as many.
generated: $(FETCH)
	FLOW_GENERATED=$(or $(N),500) OMP_NUM_THREADS=1 $(CARGO) test --release --test it generated:: -- --nocapture

# How often the intervals of `flow study` cover what they name: simulated studies in sixteen settings. N=20000 simulates as many of each.
coverage: $(FETCH)
	FLOW_COVERAGE=$(or $(N),4000) $(CARGO) test --release -p flow-study --bins stats::coverage -- --nocapture

# `flow test --invariance` of every pipeline that learns, some minutes each. ARGS names some: ARGS="quickstart ppo-sokoban".
invariance: build pyarrow
	python3 tests/soak/invariance.py $(ARGS)

# One digest on 1, 2 and 4 workers, in 2 and 3 processes, with staleness 0 and 1, and replayed on other numbers of workers.
digests: build
	python3 tests/soak/digests.py

# The door for agent programs with the clients of OpenAI, Anthropic, LangGraph, Pydantic AI and smolagents from PyPI, each an unchanged program, and programs
# whose sub-agents overlap: one digest on any number of workers and after kills.
door: build .venv-agents/made-from
	target/release/flow env install program
	cd python && ../.venv-agents/bin/python -W ignore -m unittest tests.test_door tests.test_door_calls tests.test_door_clients
	python3 tests/soak/agents.py

.venv-agents/made-from: python/flow_env/requirements/program.txt python/tests/clients.txt
	python3 -m venv .venv-agents
	.venv-agents/bin/python -m pip install --quiet -r python/flow_env/requirements/program.txt
	.venv-agents/bin/python -m pip install --quiet -r python/tests/clients.txt # which has no hashes, so it can't be read together with the other
	cat $^ > $@

# 1,000 conversations of 2 to 32 turns by SmolLM2 behind an agent program: none goes on from other tokens than were sampled, and how many a client that encodes
# its messages again would have changed. An hour of one core.
drift: build
	target/release/flow env install program
	target/release/flow model fetch smollm2-135m-instruct
	target/release/flow run pipelines/agents/drift.yaml --out runs/agents-drift
	FLOW_DRIFT=$(CURDIR)/runs/agents-drift $(CARGO) test --release --test it drift:: -- --ignored --nocapture

# One of two processes killed, 20 times: the other ends within 5 seconds.
killed: build
	python3 tests/soak/killed.py

# Two hosts as network namespaces, 20 ms and 1% loss between them, and then a cut: as root, on Linux.
network: build
	python3 tests/soak/network.py $(ARGS)

# An environment that dies, hangs or answers garbage in one turn of a hundred: the run completes, each failure is a row.
faults: build
	python3 tests/soak/faults.py

# SmolLM2 learns while two vLLM servers on this CPU generate, and servers that are killed, hold another model or adapter, or stand still. Half an hour;
# ARGS="killed stalled" does some.
servers: build .venv-vllm/made-from
	target/release/flow model fetch smollm2-135m-instruct
	python3 tests/soak/servers.py $(ARGS)

# A vLLM that runs on a CPU: some 6 GB.
.venv-vllm/made-from: scripts/get-vllm.sh
	rm -rf .venv-vllm && scripts/get-vllm.sh .venv-vllm
	cp scripts/get-vllm.sh $@

# GRPO against GiGPO from one warm start: three seeds each, going on where it was left. ARGS="--jobs 2" does two runs at a time.
compare: build
	target/release/flow study papers/sokoban/study.yaml $(ARGS)

# The tables of one folder of papers (PAPER=lamer), written there; minutes to hours, as its page says. It goes on where it was left; ARGS="--jobs 2" does two
# pieces of work at a time, ARGS=--dry-run says what is left.
reproduce: build
	for study in papers/$(PAPER)/study*.yaml; do target/release/flow study $$study $(ARGS) || exit 1; done

# Tiny random models of every architecture as transformers computes them (tests/golden/models), made anew in a virtual environment of
# some 6 GB. With SMOLLM2=FOLDER (flow model fetch smollm2-135m-instruct), SmolLM2 is compared as well, with its GGUF file, with MINILM=FOLDER (flow model
# fetch minilm) MiniLM.
parity-models: .venv-parity/made-from
	.venv-parity/bin/python scripts/parity_models.py
	if [ -n "$(SMOLLM2)" ]; then .venv-parity/bin/python scripts/parity_models.py --smollm2 $(SMOLLM2)/model.gguf > .venv-parity/smollm2.json; fi
	if [ -n "$(MINILM)" ]; then .venv-parity/bin/python scripts/parity_models.py --minilm $(MINILM) > .venv-parity/minilm.json; fi
	if [ -n "$(MINILM)" ]; then FLOW_MINILM=$(abspath $(MINILM)) FLOW_GOLDEN=$(CURDIR)/.venv-parity/minilm.json \
	  $(CARGO) test --release --lib minilm_from_its_package -- --ignored --nocapture; fi
	if [ -n "$(SMOLLM2)" ]; then FLOW_SMOLLM2=$(abspath $(SMOLLM2)) FLOW_GOLDEN=$(CURDIR)/.venv-parity/smollm2.json \
	  $(CARGO) test --release --lib smollm2_from_gguf -- --ignored --nocapture; fi

# The virtual environment of transformers and PEFT.
.venv-parity/made-from: scripts/parity-models.txt
	rm -rf .venv-parity && python3.11 -m venv .venv-parity
	.venv-parity/bin/pip install -q --disable-pip-version-check --no-deps -r scripts/parity-models.txt
	cp scripts/parity-models.txt $@

# What `train:` of a model runs in: torch, transformers and peft.
train-env: .flow/train/made-from
.flow/train/made-from: scripts/parity-models.txt
	rm -rf .flow/train && python3.11 -m venv .flow/train
	.flow/train/bin/pip install -q --disable-pip-version-check --no-deps -r scripts/parity-models.txt
	cp scripts/parity-models.txt .flow/train/made-from

# The SDK of Tinker's protocol, for `train: { tinker: URL }`: the version that the server supports.
TINKER ?= 0.25.0
tinker-env:
	rm -rf .flow/tinker && python3.11 -m venv .flow/tinker
	.flow/tinker/bin/pip install -q --disable-pip-version-check tinker==$(TINKER) numpy

# Against a server of Tinker's protocol that runs at FLOW_TINKER_URL, with the folder of its model as MODEL; needs torch, transformers, peft and the SDK.
tinker-parity:
	OMP_NUM_THREADS=1 $(or $(FLOW_TINKER_PYTHON),python3) -W ignore python/tests/tinker_parity.py

# Trainers: every objective against libtorch and a Gemma 3 against a plain loop, on one rank and on two; then whole runs, with ranks that are killed and that stop.
train-parity: build .venv-parity/made-from
	FLOW_TRAIN_PYTHON=$(CURDIR)/.venv-parity/bin/python OMP_NUM_THREADS=1 $(CARGO) test --release -p flow-policy --lib tests::trainer -- --include-ignored --nocapture --test-threads=1
	FLOW_TRAIN_PYTHON=$(CURDIR)/.venv-parity/bin/python OMP_NUM_THREADS=1 $(CARGO) test --release --test it of_a_trainer -- --ignored --nocapture
	.venv-parity/bin/python -W ignore python/tests/train_parity.py
	FLOW_TRAIN_PYTHON=$(CURDIR)/.venv-parity/bin/python python3 tests/soak/trainer.py

# What `flow model export` writes, loaded by transformers and PEFT: the same logits, weights and text.
interop-models: build .venv-parity/made-from
	.venv-parity/bin/python scripts/exported.py
