# Everything runs inside a virtual environment that `make` builds by itself. Other places and interpreters:
#   make test VENV=/tmp/elsewhere PYTHON=python3.12
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
JOBS ?= 2

BIN := $(VENV)/bin
STAMP := $(VENV)/.attnfaith-installed
# What the demo needs: the package without the tools of developers.
PACKAGE := $(VENV)/.attnfaith-package-installed
# One thread per test process: the models in the tests are tiny, and processes must not fight over the cores. The tests of
# a module run in one process, so that what they share is made once.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist loadscope

.DEFAULT_GOAL := help
.PHONY: help venv demo examples lint format test test-families test-examples test-quick test-oldest faults docs wheel-check bench bench-peers clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s%s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

venv: $(STAMP)  ## make the virtual environment (again only when pyproject.toml or constraints.txt changed)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,docs]"
	@touch $@

$(PACKAGE): pyproject.toml constraints.txt
	@echo "Installing attnfaith and what it needs (PyTorch, Transformers and others) into $(VENV); this takes some minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e .
	@touch $@

demo: $(PACKAGE)  ## train and evaluate two models on generated reviews, with reports in attnfaith-demo/
	$(BIN)/attnfaith demo

examples: $(STAMP)  ## execute the notebooks of examples/ and store their outputs (three minutes)
	$(BIN)/python -m examples.build

lint: $(STAMP)  ## check style, docstrings, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## put imports and layout right
	$(BIN)/ruff check --fix --select I .
	$(BIN)/ruff format .

test: $(STAMP)  ## every test but those below, the slow ones too, and every example in docstrings, docs and README
	$(PYTEST) -m "not families and not examples"

test-families: $(STAMP)  ## the tests of `make test` that are drawn over families of models, on all the other families
	$(PYTEST) -m families tests

test-examples: $(STAMP)  ## run the notebooks, the scripts of the papers, the benchmarks and the fault suite (in their small form), the demo, and several processes, and check them
	$(PYTEST) -m examples tests

test-quick: $(STAMP)  ## those of `make test` without the slow ones
	$(PYTEST) -m "not slow and not families and not examples"

# Where other packages meet this one: models, tokenizers, data, features, tables, kernels, plots and the command line.
# About a quarter of an hour on two cores. Left out are slow tests, and folders whose code goes through the same calls
# (diagnostics, estimates, explanations, report) or is about numbers and damage rather than versions (independent, faults).
OLDEST ?= .venv-oldest
OLDEST_TESTS ?= tests/test_survey.py tests/adapters tests/attribution tests/cli tests/contracts tests/data tests/demo \
	tests/evaluation tests/functional tests/metrics tests/models tests/plots tests/storage tests/text tests/training \
	attnfaith/survey.py attnfaith/transformers_versions.py

test-oldest: $(OLDEST)/.attnfaith-installed  ## the quick tests on the oldest versions of other packages that are admitted
	OMP_NUM_THREADS=1 $(OLDEST)/bin/pytest -n $(JOBS) --dist loadscope -m "not slow and not families and not examples" $(OLDEST_TESTS)

$(OLDEST)/.attnfaith-installed: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-oldest.txt -e . hypothesis pytest pytest-xdist
	@touch $@

faults: $(STAMP)  ## the fault suite in its long form (half an hour, nothing else running); rewrites docs/reliability.md
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults --long --page

docs: $(STAMP)  ## check links and spelling, and build the documentation into build/docs; a warning is an error
	rm -rf docs/generated
	$(BIN)/python docs/check_links.py
	$(BIN)/python docs/check_spelling.py
	$(BIN)/python -m codespell_lib README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs attnfaith
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --builder html docs build/docs
	@echo "built: build/docs/index.html"

# Everything happens outside of the clone's own environments, so that nothing but the archive is imported.
WHEEL := build/wheel-check

wheel-check: $(STAMP)  ## build the archives, install the wheel into an empty environment, and run its demo there
	rm -rf $(WHEEL)
	$(BIN)/python -m build --outdir $(WHEEL)/dist .
	$(PYTHON) -m venv $(WHEEL)/venv
	$(WHEEL)/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(WHEEL)/dist/*.whl
	cd $(WHEEL) && PYTHONPATH= venv/bin/attnfaith demo --output demo --quiet
	@echo "checked: $(WHEEL)/dist; the reports of the demo: $(WHEEL)/demo/flan.html and han.html"

# Each module is one claim (those with a leading _ are parts of others); `python -m benchmarks.tail` runs one.
# `make bench` takes at most 25 minutes on two cores: what is about speed, some of it in a smaller form than by itself.
# The other modules of benchmarks/ are studies (of intervals, labels, published figures), which are run by name.
BENCHMARKS := attribution callback counterfactual erasing_long_texts erasure flipping_sets forecast path_points \
	performance reader tail
BENCH_OPTIONS_attribution := --rounds 1
BENCH_OPTIONS_callback := --rounds 2
BENCH_OPTIONS_counterfactual := --rounds 1 --texts 32
BENCH_OPTIONS_erasing_long_texts := --texts 4
BENCH_OPTIONS_erasure := --rounds 1
BENCH_OPTIONS_flipping_sets := --texts 32
BENCH_OPTIONS_forecast := --only minilm-sst2 FLANrnn HANrnn
BENCH_OPTIONS_path_points := --texts 16
BENCH_OPTIONS_reader := --texts 2000 --stored 200
BENCH_OPTIONS_tail := --rounds 3
PEERS ?= .venv-peers
SIZE ?= usual

bench: $(STAMP)  ## measure what is claimed about speed, with nothing else running (25 minutes)
	@set -e; $(foreach name,$(BENCHMARKS),echo "== $(name)"; $(BIN)/python -m benchmarks.$(name) $(BENCH_OPTIONS_$(name));)

bench-peers: $(PEERS)/.attnfaith-installed  ## measure beside other libraries, in an environment of their own
	$(PEERS)/bin/python -m benchmarks.performance --only peers --size $(SIZE)

$(PEERS)/.attnfaith-installed: constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . ferret-xai interpreto quantus
	@touch $@

clean:  ## remove everything the other targets made, .venv too
	rm -rf .venv .venv-oldest build dist docs/generated .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
