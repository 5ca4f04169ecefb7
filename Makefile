# Everything one does with this repository. `make help` lists it.
# Paths stay relative throughout, so that the working directory may have any name.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first interpreter that is new enough; say PYTHON=/path/to/python to choose another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo "$$python" && break; done)

VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
BENCH_VENV := .venv-bench
BENCH_READY := $(BENCH_VENV)/.ready
PIP := -m pip --disable-pip-version-check --no-input --quiet
UV_VERSION := 0.13.7
COMPILE = build/uv/bin/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(LOCK_FLAGS)
EXTRAS := adk all client cli companion daytona langgraph models openai-agents postgres pydantic-ai server testing workbench
WORKERS ?= 2
# What make check runs: the shape of the code and what everything else rests on, but for what takes long.
QUICK := tests/architecture tests/core tests/database -m "not (slow or crash or race or browser or postgres)"
TYPED := src companion/src tests $(patsubst %/,%,$(sort $(dir $(wildcard bench/*.py examples/*.py))))

.PHONY: help
help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

.PHONY: serve
serve: $(READY) ## Set everything up and serve a chat and the API on loopback (SERVE_FLAGS are passed on)
	@$(VENV)/bin/clew serve $(SERVE_FLAGS) || [ $$? -eq 130 ]  # Ctrl-C is how one stops it

.PHONY: demo
demo: $(READY) ## Set everything up and see a thread survive a crash
	@$(VENV)/bin/clew demo

# Outcome 1 of pytest means that tests failed: the page is written all the same, and says so.
.PHONY: test
test: $(READY) ## Set everything up, run every test, write docs/promises.md
	@status=0; \
	$(RUN) -m pytest -n $(WORKERS) --promise-report=build/promises.json || status=$$?; \
	if [ $$status -le 1 ]; then $(RUN) -m tests.support.promises_page || status=1; fi; \
	exit $$status

.PHONY: check
check: $(READY) ## Format, lint, types, import contracts and quick tests: under a minute
	@$(RUN) -m ruff format --check .
	@$(RUN) -m ruff check .
	@$(RUN) -m mypy $(TYPED)
	@$(VENV)/bin/lint-imports --no-logo
	@$(RUN) -m pytest -q -n $(WORKERS) $(QUICK)

.PHONY: format
format: $(READY) ## Rewrite the code in the agreed format
	@$(RUN) -m ruff check --fix-only --quiet .
	@$(RUN) -m ruff format .

# The peers it measures us against have a lock and an environment of their own.
.PHONY: bench
bench: $(BENCH_READY) ## Measure every public claim (BENCH_FLAGS are passed on)
	@PYTHONPATH=src:companion/src $(BENCH_VENV)/bin/python -m bench $(BENCH_FLAGS)

.PHONY: lock
lock: build/uv/.ready ## Write the locks anew (LOCK_FLAGS=--upgrade for newer versions)
	@$(COMPILE) pyproject.toml $(EXTRAS:%=--extra %) --group dev --output-file requirements.lock
	@$(COMPILE) bench/requirements.in --output-file bench/requirements.lock

.PHONY: clean
clean: ## Remove everything that make has made
	rm -rf $(VENV) $(BENCH_VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src companion tests $(wildcard bench examples) -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: python
python:
	@"$(or $(PYTHON),python3)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Clew needs Python 3.11 or newer, and $(or $(PYTHON),python3) is not."; \
		echo "Install one, or name one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; } >&2

# $(call environment,DIRECTORY,LOCK): a new virtual environment with exactly what the lock says.
define environment
	@echo "Setting up $(1) (needed once, and after $(2) has changed) ..."
	@"$(PYTHON)" -m venv --clear $(1) || { \
		echo "$(PYTHON) cannot make a virtual environment; on Debian, install python3-venv."; exit 1; } >&2
	@$(1)/bin/python $(PIP) install --require-hashes --requirement $(2)
endef

$(VENV)/.locked: requirements.lock | python
	$(call environment,$(VENV),requirements.lock)
	@touch $@

$(READY): $(VENV)/.locked pyproject.toml companion/pyproject.toml
	@$(RUN) $(PIP) install --no-deps --no-build-isolation --no-index --editable . --editable companion
	@touch $@

$(BENCH_READY): bench/requirements.lock | python
	$(call environment,$(BENCH_VENV),bench/requirements.lock)
	@touch $@

build/uv/.ready: Makefile | python
	@"$(PYTHON)" -m venv --clear build/uv
	@build/uv/bin/python $(PIP) install uv==$(UV_VERSION)
	@touch $@
