# The two commands of the README: each is complete on a fresh machine with Python >= 3.11 and a C compiler.
#   make demo   a small program with known behaviour, measured and explained
#   make test   linters, types, tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml meson.build $(shell find src -type f -not -path '*/__pycache__/*')

.PHONY: demo test lint install benchmarks guest clean

demo: $(VENV)/installed
	@$(BIN)/headway demo

test: lint
	@$(BIN)/python -m pytest

lint: $(VENV)/installed
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

install: $(VENV)/installed

benchmarks: $(VENV)/installed
	@$(BIN)/python -m benchmarks

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(BIN)/python $(SOURCES)
	@echo "building headway (about a minute the first time) ..." >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[test]'
	@touch $@

# The programs of the reference machine; they are kept in examples/, so only a change to their sources needs this.
guest:
	@$(MAKE) --no-print-directory -C src/headway/machine/guest

clean:
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .hypothesis
