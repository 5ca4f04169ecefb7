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
SERVE_VENV := .venv-serve
SERVE_READY := $(SERVE_VENV)/.ready
BENCH_VENV := .venv-bench
BENCH_READY := $(BENCH_VENV)/.ready
SITE_VENV := .venv-site
SITE_READY := $(SITE_VENV)/.ready
SUITES := interop ha
PIP := -m pip --disable-pip-version-check --no-input --quiet
UV_VERSION := 0.13.7
# Clew and the companion are given to it as folders, so that no index is asked for their names, and left out.
COMPILE = build/uv/bin/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-emit-package clew --no-emit-package clew-companion \
	--custom-compile-command "make lock" $(LOCK_FLAGS)
# The lowest versions that are supported of what a test tries at both ends.
LOWEST := tests/support/agents_sdk/lowest
EXTRAS := adk,all,companion,daytona,langgraph,openai-agents,pydantic-ai,testing
WORKERS ?= 2
# What make check runs: the shape of the code and what everything else rests on, but for what takes long.
QUICK := tests/architecture tests/core tests/database -m "not (slow or crash or race or browser or postgres)"
TYPED := src companion/src tests $(patsubst %/,%,$(sort $(dir $(wildcard bench/*.py examples/*.py))))

.PHONY: help
help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-21s %s\n", $$1, $$2 }'

.PHONY: serve
serve: $(SERVE_READY) ## Install what serving needs and serve a chat and the API on loopback (SERVE_FLAGS are passed on)
	@$(SERVE_VENV)/bin/clew serve $(SERVE_FLAGS) || [ $$? -eq 130 ]  # Ctrl-C is how one stops it

.PHONY: demo
demo: $(SERVE_READY) ## Install the same and see a thread survive a crash
	@$(SERVE_VENV)/bin/clew demo

# Outcome 1 of pytest means that tests failed: the page is written all the same, and says so.
.PHONY: test
test: $(READY) ## Install everything, run every test, write docs/promises.md
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

# A suite with nothing to run says so before anything is installed, and ends with 5, as pytest does.
.PHONY: $(SUITES)
interop: ## Run the tests that need Node or npm, merge what they show into docs/promises.md
ha: ## Run the tests that need etcd and Patroni, merge what they show into docs/promises.md
$(SUITES): | python
	@"$(PYTHON)" -m tests.support.suites $@
	@$(MAKE) --no-print-directory .venv-$@/.ready
	@status=0; \
	.venv-$@/bin/python -m pytest --suite=$@ --promise-report=build/promises-$@.json || status=$$?; \
	if [ $$status -le 1 ]; then .venv-$@/bin/python -m tests.support.promises_page || status=1; fi; \
	exit $$status

.PHONY: format
format: $(READY) ## Rewrite the code in the agreed format
	@$(RUN) -m ruff check --fix-only --quiet .
	@$(RUN) -m ruff format .

# What was checked is in build/release/dist afterwards.
.PHONY: release-check
release-check: $(READY) ## Build what would be released, check it, and try it on every Python here (TAG is compared)
	@$(RUN) -m tests.support.release $(if $(TAG),--tag "$$TAG")

# The peers it measures us against have a lock and an environment of their own.
.PHONY: bench
bench: $(BENCH_READY) ## Measure every public claim (BENCH_FLAGS are passed on)
	@PYTHONPATH=src:companion/src $(BENCH_VENV)/bin/python -m bench $(BENCH_FLAGS)

# The generator reports a link to a page that is not there; the last command looks at all that was built.
.PHONY: docs
docs: $(SITE_READY) ## Build the documentation site in build/site; a broken link or an orphan page is an error
	@rm -rf build/site
	@$(SITE_VENV)/bin/python -m tools.site_pages build/pages
	@$(SITE_VENV)/bin/zensical build --strict --config-file build/zensical.toml
	@$(SITE_VENV)/bin/python -m tools.site_links build/site

.PHONY: lock
lock: build/uv/.ready ## Write the locks anew (LOCK_FLAGS=--upgrade for newer versions)
	@printf '%s\n' '.[$(EXTRAS)]' ./companion | $(COMPILE) - --group dev --output-file requirements.lock
	@printf '%s\n' '.[server]' ./companion | \
		$(COMPILE) - --group build --constraint requirements.lock --output-file requirements-serve.lock
	@for suite in $(SUITES); do \
		$(COMPILE) $$suite/requirements.in --constraint requirements.lock --output-file $$suite/requirements.lock \
		|| exit 1; done
	@$(COMPILE) bench/requirements.in --output-file bench/requirements.lock
	@$(COMPILE) site/requirements.in --output-file site/requirements.lock
	@$(COMPILE) --no-deps $(LOWEST).in --output-file $(LOWEST).lock

.PHONY: clean
clean: ## Remove everything that make has made
	rm -rf $(VENV) $(SERVE_VENV) $(BENCH_VENV) $(SITE_VENV) $(SUITES:%=.venv-%) interop/node_modules build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src companion tests $(wildcard bench examples) -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: python
python:
	@"$(or $(PYTHON),python3)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Clew needs Python 3.11 or newer, and $(or $(PYTHON),python3) is not."; \
		echo "Install one, or name one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; } >&2

# $(call environment,DIRECTORY,LOCKS): a new virtual environment with exactly what the locks say.
define environment
	@echo "Setting up $(1): needed once, and after $(2) has changed."
	@"$(PYTHON)" -m venv --clear $(1) || { \
		echo "$(PYTHON) cannot make a virtual environment; on Debian, install python3-venv."; exit 1; } >&2
	@$(1)/bin/python tools/install_lock.py $(2)
endef

# $(call distributions,DIRECTORY): Clew and the companion, from this checkout.
define distributions
	@echo "  installing Clew and the companion"
	@$(1)/bin/python $(PIP) install --no-deps --no-build-isolation --no-index --editable . --editable companion
	@touch $(1)/.ready
endef

$(VENV)/.locked: requirements.lock | python
	$(call environment,$(VENV),requirements.lock)
	@touch $@

$(READY): $(VENV)/.locked pyproject.toml companion/pyproject.toml
	$(call distributions,$(VENV))

$(SERVE_VENV)/.locked: requirements-serve.lock | python
	$(call environment,$(SERVE_VENV),requirements-serve.lock)
	@touch $@

$(SERVE_READY): $(SERVE_VENV)/.locked pyproject.toml companion/pyproject.toml
	$(call distributions,$(SERVE_VENV))

$(SUITES:%=.venv-%/.locked): .venv-%/.locked: requirements.lock %/requirements.lock | python
	$(call environment,.venv-$*,requirements.lock $*/requirements.lock)
	@touch $@

$(SUITES:%=.venv-%/.ready): .venv-%/.ready: .venv-%/.locked pyproject.toml companion/pyproject.toml
	$(call distributions,.venv-$*)

# npm comes with the Node of that environment, and installs exactly what package-lock.json says.
.venv-interop/.ready: .venv-interop/.npm
.venv-interop/.npm: .venv-interop/.locked interop/.npmrc interop/package.json interop/package-lock.json
	@echo "  installing the packages for Node"
	@cd interop && ../.venv-interop/bin/npm ci --loglevel=error
	@touch $@

$(BENCH_READY): bench/requirements.lock | python
	$(call environment,$(BENCH_VENV),bench/requirements.lock)
	@touch $@

$(SITE_READY): site/requirements.lock | python
	$(call environment,$(SITE_VENV),site/requirements.lock)
	@touch $@

build/uv/.ready: Makefile | python
	@"$(PYTHON)" -m venv --clear build/uv
	@build/uv/bin/python $(PIP) install uv==$(UV_VERSION)
	@touch $@
