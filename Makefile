# Everything a fresh checkout needs: `make demo` to hear it, `make test` to check it.

PYTHON ?= python3
VENV   := .venv
SGLANG := .venv-sglang
TEXT   ?= Hello! This sentence went through three processes before you heard it.
export TEXT
# Set TORCH to another requirement, such as torch==2.13.0+cpu, to choose the build.
TORCH  ?= torch==2.13.0

PLUGINS  := $(wildcard plugins/*/pyproject.toml)
PROJECTS := pyproject.toml $(PLUGINS)
EDITABLE := -e . $(patsubst %/pyproject.toml,-e ./%,$(PLUGINS))
PIP      := -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo install test test-slow lint format wheels bench clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is too old: name Python 3.11 or newer, as in make demo PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python $(PIP) --upgrade pip

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml plugins/omni-demo/pyproject.toml
	@echo "installing omni-host and omni-demo into $(VENV)"
	$(VENV)/bin/python $(PIP) -e . -e ./plugins/omni-demo
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python $(PROJECTS)
	@echo "installing every package of the workspace with its tests' needs into $(VENV)"
	$(VENV)/bin/python $(PIP) "$(TORCH)" safetensors $(EDITABLE) --group dev
	@touch $@

$(SGLANG)/.dev: $(PROJECTS)
	@echo "installing SGLang and the parity tests' needs into $(SGLANG)"
	$(PYTHON) -m venv $(SGLANG)
	$(SGLANG)/bin/python $(PIP) --upgrade pip
	$(SGLANG)/bin/python $(PIP) "$(TORCH)" safetensors scipy $(EDITABLE) --group dev
	$(SGLANG)/bin/omni install-engine sglang
	@touch $@

demo: $(VENV)/.demo ## install and speak a sentence into demo.wav
	$(VENV)/bin/omni speak "$$TEXT" -o demo.wav

install: $(VENV)/.dev ## everything for development, in .venv

test: $(VENV)/.dev ## the tests, in some minutes
	$(VENV)/bin/python -m pytest -m "not slow and not gpu"

test-slow: $(SGLANG)/.dev ## parity on every engine, faults, load
	OMP_NUM_THREADS=1 $(SGLANG)/bin/python -m pytest -m "slow and not gpu"
	OMP_NUM_THREADS=1 $(SGLANG)/bin/python -m pytest -m "not slow and not gpu" tests/engines

lint: $(VENV)/.dev ## format, lint, types, layers
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check
	$(VENV)/bin/lint-imports
	$(VENV)/bin/pyright

format: $(VENV)/.dev ## apply the format and the fixes that are safe
	$(VENV)/bin/ruff format
	$(VENV)/bin/ruff check --fix

wheels: $(VENV)/.dev ## build every wheel, install them in a clean place, speak
	sh .ci/wheels $(VENV)/bin/python

bench: $(VENV)/.dev ## start-up and host overhead, into benchmarks/results/
	$(VENV)/bin/python benchmarks/startup.py

clean: ## remove environments and build results
	rm -rf $(VENV) $(SGLANG) dist build demo.wav .pytest_cache .ruff_cache .import_linter_cache
