# `make` without a target lists the targets.
#
#   PYTHON=python3.12   the Python that the environment is made with
#   PYTHONS="…"         the Pythons that `make versions` tests with; by default all that are installed
#   ARGS="-k lease"     options for pytest (test, versions, crash), the benchmark (bench) or the real agents (agents)

PYTHON ?= python3
PYTHONS ?=
ARGS ?=

BIN := .venv/bin
# The name of each stamp has the requested Python in it, so a request for another one makes the environment again.
ASKED := $(subst /,_,$(PYTHON))
VENV := .venv/made-by-$(ASKED)
COMPILED := .venv/tests-compiled
VENV_BENCH := .venv-bench/made-by-$(ASKED)
VENV_COMPARE := .venv-compare/made-by-$(ASKED)
VENV_MAKERS := .venv-makers/made-by-$(ASKED)
VENV_DOCS := .venv-docs/made-by-$(ASKED)
NEEDED := $(if $(filter Linux,$(shell uname -s)),tools/ensure-packages git perl strace zsh fish chromium node=nodejs && tools/ensure-server) # by the tests

# With bytecode files switched off, every test would be compiled at each start.
export PYTHONDONTWRITEBYTECODE :=

# One more than there are processors: many tests wait for processes that they started.
export PYTEST_XDIST_AUTO_NUM_WORKERS ?= $(shell echo $$(($$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 1)))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test versions check lint types layers packages bench compare agents crash pictures screenshots docs clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV) ## a workflow of five steps, killed in the third and resumed
	@$(BIN)/leftoff demo

test: ## the checks, then every test except the full fault matrix
	@$(MAKE) --no-print-directory -j2 check $(COMPILED) packages
	@$(BIN)/python -m pytest -q -n auto --dist worksteal $(ARGS)

versions: packages ## the tests on every Python from 3.11 on that is here
	@tools/test-versions $(PYTHONS) -- $(ARGS)

check: types lint layers ## lint, format, types, layers

types: $(VENV)
	@$(BIN)/mypy

lint: $(VENV)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/python tools/prose.py

layers: $(VENV)
	@report=$$($(BIN)/lint-imports) || { echo "$$report"; exit 1; }; echo "$$report" | tail -n 1

packages: # that the tests need
	@$(NEEDED)

bench: $(VENV_BENCH) $(VENV_MAKERS) ## measure against peers (ARGS=--json for a machine)
	@.venv-bench/bin/python -m bench $(ARGS)

compare: $(VENV_COMPARE) ## play crashes with leftoff and its peers, write docs/explanation/comparison.md (ARGS=--quick)
	@test "$$(id -u)" -ne 0 || tools/ensure-packages mkfs.ext4=e2fsprogs mount # for the power cuts
	@.venv-compare/bin/python -m bench.compare $(ARGS)

agents: $(VENV) ## the real agents' programs from npm, with leftoff: takes long, writes docs/reference/agent-compatibility.md
	@tools/ensure-packages git npm unshare=util-linux ip=iproute2 tmux
	@$(BIN)/python -m tests.real_agents $(ARGS)

crash: $(VENV) packages ## the full fault matrix: needs root, takes long, writes docs/explanation/reliability.md
	@test "$$(id -u)" -eq 0 || { echo "make crash needs root, to mount file systems from loop images; try: sudo make crash" >&2; exit 1; }
	@tools/ensure-packages strace mkfs.ext4=e2fsprogs mkfs.xfs=xfsprogs mount unshare=util-linux
	@LEFTOFF_HYPOTHESIS=thorough $(BIN)/python -m pytest -q tests -p tests.crash.reliability -m "crash_full or not crash_full" -n auto --dist worksteal --timeout 3600 $(ARGS)

screenshots: $(VENV) ## take the pictures of the page (ARGS=FOLDER for every screen)
	@tools/ensure-packages chromium
	@$(BIN)/python tools/screenshots.py $(ARGS)

pictures: $(VENV) ## draw the animation in the README from a real session
	@tools/ensure-packages git npm unshare=util-linux ip=iproute2 tmux
	@$(BIN)/python -m tools.pictures

docs: $(VENV_DOCS) ## build the documentation as a site in site/, with a search
	@.venv-docs/bin/zensical build --clean --strict
	@echo "to read it: python3 -m http.server --directory site"

reference: $(VENV) ## write the generated parts of docs/reference
	@$(BIN)/python tools/reference.py

clean: ## remove what was built; never a .leftoff folder
	@rm -rf .venv .venv-* build dist site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find bench examples src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV): pyproject.toml constraints.txt tools/make-venv bin/leftoff
	@tools/make-venv $(PYTHON) .venv --no-compile -c constraints.txt -e '.[test,check]'
	@$(BIN)/python -m compileall -q src # so that the command starts as fast as an installed one
	@rm -f .venv/made-by-* && touch $@

# Compile the tests once, in parallel with the checks, instead of in every worker.
$(COMPILED): $(VENV)
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1; touch $@

$(VENV_BENCH): pyproject.toml constraints.txt bench/requirements.txt tools/make-venv bin/leftoff
	@tools/make-venv $(PYTHON) .venv-bench -c constraints.txt -e . -r bench/requirements.txt
	@rm -f .venv-bench/made-by-* && touch $@

$(VENV_COMPARE): pyproject.toml constraints.txt bench/compare/requirements.txt tools/make-venv bin/leftoff
	@tools/make-venv $(PYTHON) .venv-compare -c constraints.txt -e . -r bench/compare/requirements.txt
	@rm -f .venv-compare/made-by-* && touch $@

# An environment of their own: they need older versions of what we pin.
$(VENV_MAKERS): bench/makers.txt tools/make-venv
	@tools/make-venv $(PYTHON) .venv-makers -r bench/makers.txt
	@rm -f .venv-makers/made-by-* && touch $@

$(VENV_DOCS): docs/requirements.txt tools/make-venv
	@tools/make-venv $(PYTHON) .venv-docs -r docs/requirements.txt
	@rm -f .venv-docs/made-by-* && touch $@
