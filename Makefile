# The two commands of the README: each is complete on a fresh machine with Python >= 3.11 and a C compiler.
#   make demo   a small program with known behaviour, measured and explained
#   make test   linters, types, tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOGETHER := $(addprefix tests/,advice binary machine model recording serving testing trace views regions/test_header.py) \
	tests/test_extras.py $(addprefix tests/commands/test_,advise.py export.py html.py query.py serve.py top.py trace.py)
SOURCES := pyproject.toml meson.build meson.options $(shell find src -type f -not -path '*/__pycache__/*')
WHOLE := test docs kernels kernels-gate lint install benchmarks $(addprefix $(VENV)/,installed kernels spark)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test docs kernels kernels-gate lint install benchmarks guest web wheels wheels-check clean

# The demo needs little of headway and none of its extras. Where all of it is installed, or about to be, it takes that.
demo: $(VENV)/$(if $(wildcard $(VENV)/installed)$(filter $(WHOLE),$(MAKECMDGOALS)),installed,base)
	@$(BIN)/headway demo

# What computes, or measures only what neighbours cannot change, is tested on all processors at once; the rest has the
# machine to itself.
test: lint $(if $(shell command -v java),$(VENV)/spark)
	@$(BIN)/python -m pytest -n auto $(TOGETHER)
	@$(BIN)/python -m pytest $(addprefix --ignore=,$(TOGETHER))

# The documentation: a site in build/site, and a man page for each command in build/man (man -l build/man/headway-stat.1).
docs: $(VENV)/installed
	@$(BIN)/python -m sphinx -q -W --keep-going -E -a -b html -d build/doctrees docs build/site
	@$(BIN)/python -m sphinx -q -W --keep-going -b man -d build/doctrees docs build/man

# Other kernels, booted in QEMU (docs/platforms.md): all that is measured on each, or only whether each loads the programs.
# What is not installed or cannot be downloaded is skipped, with the reason.
kernels: $(VENV)/kernels
	@$(BIN)/python -m tests.kernels $(KERNELS)

kernels-gate: $(VENV)/kernels
	@$(BIN)/python -m tests.kernels --gate --kernel 6.1 --kernel 6.12 --processors 2

lint: $(VENV)/installed
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

install: $(VENV)/installed

benchmarks: $(VENV)/installed
	@$(BIN)/python -m benchmarks

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/base: $(BIN)/python $(SOURCES)
	@echo "building what the demo needs of headway (about half a minute) ..." >&2
	@$(PIP) --no-compile --config-settings=setup-args=-Dwhole=false .
	@touch $@

$(VENV)/installed: $(BIN)/python $(SOURCES)
	@echo "building headway (about a minute the first time) ..." >&2
	@$(PIP) '.[test]'
	@touch $@

$(VENV)/kernels: $(VENV)/installed
	@$(PIP) 'virtme-ng>=1.30' || \
		echo "virtme-ng cannot be installed: no other kernel is tried" >&2
	@touch $@

# Queries are tested on Spark too where there is Java, which it needs. What is installed is enough of headway itself.
$(VENV)/spark: $(VENV)/installed
	@$(PIP) --use-pep517 'headway[spark]'
	@touch $@

# The programs of the reference machine; they are kept in examples/, so only a change to their sources needs this.
guest:
	@$(MAKE) --no-print-directory -C src/headway/machine/guest

# The front end of the HTML report. It is kept in src/headway/views/html/, so only a change to web/ needs this, and Node.js.
web:
	@cd web && npm ci --no-audit --no-fund --silent && npm run --silent check && npm run --silent build

# Wheels for x86-64 and arm64 in dist/, of which a user needs no compiler and no library; and the proof, in systems that have
# nothing but Python (as root). What is downloaded is kept between runs: docs/installing.md.
wheels:
	@$(PYTHON) -m tools.wheels --output dist

wheels-check:
	@$(PYTHON) -m tools.wheels.check --wheels dist

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
