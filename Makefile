# Complete on a fresh machine with Python >= 3.11 and a C compiler:
#   make demo       a small program with known behaviour, measured and explained
#   make test       linters, and all tests but those that are exhaustive
#   make test-all   linters, types, all tests with all examples
#   make test-loaded  make test three times in a row beside four busy loops and a disk writer: LOADED=test-all for all tests
#   make fast       headway in .venv-all with a faster reference machine (gcc)
#   make check      linters, types and the unit tests, on an incremental build: about a minute once it is built
#   make sanitize   the unit tests of the compiled parsers, built with ASan and UBSan
#   make fuzz       hostile inputs for all that is read from outside, on that build: TARGET=hwt INPUTS=1000000 (tests/fuzz)
PYTHON ?= python3
# Bytecode is written, whatever the user says elsewhere: without it each start of headway compiles 200 modules again.
export PYTHONDONTWRITEBYTECODE :=
VENV := .venv
BIN := $(VENV)/bin
ALL := .venv-all
ALL_BIN := $(ALL)/bin
DEV := .venv-dev
DEV_BIN := $(DEV)/bin
SANITIZE := .venv-sanitize
SOURCES := pyproject.toml $(shell find packages/*/src packages/*/examples packages/*/pyproject.toml packages/*/meson.* specification -type f -not -path '*/__pycache__/*')
PIP := $(ALL_BIN)/python -m pip install --quiet --disable-pip-version-check
C_SOURCES := $(shell find packages/*/src -name '*.c' -o -name '*.h')
# What cython-lint looks at: the reference machine and the traces.
CYTHON_SOURCES := specification packages/headway-trace/src packages/headway-machine/src
PYTEST := python -m pytest
# Many tests wait for a program that they measure: half a worker more than processors keeps these at work.
WORKERS ?= $(shell expr $$(nproc) \* 3 / 2)
# The tests of a file run in one process: what is made for a file is made once. The last files are short ones.
BESIDE = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# What reads what others wrote: binary formats, packets, /proc, rings, recordings. The eBPF and zlib libraries are not ours.
PARSERS := packages/headway-trace/tests/trace tests/fuzz $(addprefix packages/headway/tests/,binary recording buffers \
	regions/test_blocks.py views/test_exports.py \
	$(addprefix linux/test_,cells.py cgroups.py maps.py proc.py procfs_limits.py processors.py status.py transitions.py))

.PHONY: demo test test-all test-loaded check docs sanitize fuzz format kernels kernels-gate lint types install fast benchmarks rtl guest web wheels wheels-check clean

# The demo needs little of headway and none of its extras. Where more of it is installed, it takes that.
demo: $(VENV)/$(if $(wildcard $(VENV)/test)$(filter test lint,$(MAKECMDGOALS)),test,base)
	@mkdir -p build
	@$(BIN)/headway demo --html build/demo.html

# Before every push: everything but what is exhaustive by nature, with few examples of each property (packages/headway/tests/effort.py).
# Tests that change what the whole machine shares run after the others (packages/headway/tests/levels.py).
TESTS ?=
test: lint
	@HEADWAY_TESTS=some $(BIN)/$(PYTEST) $(BESIDE) -m "not alone and not exhaustive" $(TESTS)
	@HEADWAY_TESTS=some $(BIN)/$(PYTEST) -m "alone and not exhaustive" $(TESTS) || [ $$? = 5 ] # there may be none

# What lands: all tests, with all examples.
test-all: types $(if $(shell command -v java),$(ALL)/spark)
	@$(ALL_BIN)/$(PYTEST) $(BESIDE) -m "not alone"
	@$(ALL_BIN)/$(PYTEST) -m alone

# No test depends on how busy the machine is.
LOADED ?= test test test
test-loaded: $(VENV)/test
	@for target in $(LOADED); do $(PYTHON) -m tests.load -- $(MAKE) --no-print-directory $$target || exit; done

# The environment of check is kept, and only what has changed is compiled: on import, which comes first for that. So is the
# bytecode of headway, which an editable install does not write, and of the tests. Properties are tried with fewer examples than in test.
check: export PYTHONPYCACHEPREFIX = $(abspath $(DEV))/pycache
check: $(DEV)/installed
	@$(DEV_BIN)/ruff check .
	@$(DEV_BIN)/ruff format --check .
	@$(DEV_BIN)/clang-format --dry-run --Werror $(C_SOURCES)
	@PATH=$(abspath $(DEV_BIN)):$$PATH $(DEV_BIN)/cython-lint $(CYTHON_SOURCES)
	@PATH=$(abspath $(DEV_BIN)):$$PATH $(DEV_BIN)/python -c 'import headway, headway_trace, headway_machine'
	@$(DEV_BIN)/python -m compileall -q packages/*/src
	@$(DEV_BIN)/mypy
	@HEADWAY_TESTS=few $(DEV_BIN)/$(PYTEST) -q -n auto -m unit

# The documentation: a site in build/site, and a man page for each command in build/man (man -l build/man/headway-stat.1).
docs: $(ALL)/installed
	@$(ALL_BIN)/python -m sphinx -q -W --keep-going -E -a -b html -d build/doctrees docs build/site
	@$(ALL_BIN)/python -m sphinx -q -W --keep-going -b man -d build/doctrees docs build/man

# Other kernels, booted in QEMU (docs/headway/platforms.md): all that is measured on each, or only whether each loads the programs.
# What is not installed or cannot be downloaded is skipped, with the reason.
kernels: $(ALL)/kernels
	@$(ALL_BIN)/python -m tests.kernels $(KERNELS)

kernels-gate: $(ALL)/kernels
	@$(ALL_BIN)/python -m tests.kernels --gate --kernel 6.1 --kernel 6.12 --processors 2

lint: $(VENV)/test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/clang-format --dry-run --Werror $(C_SOURCES)

types: $(ALL)/installed
	@$(ALL_BIN)/mypy

format: $(VENV)/test
	@$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(C_SOURCES)

# Errors of memory and undefined behaviour end the test run. Python itself is not built with ASan, so that is loaded before it,
# and leaks are not looked for: Python keeps memory until it ends. -s: what is found is written as the process aborts.
SANITIZED = LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:quarantine_size_mb=16:max_allocation_size_mb=256:allocator_may_return_null=1 \
	UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:abort_on_error=1
sanitize: $(SANITIZE)/installed
	@$(SANITIZED) $(SANITIZE)/bin/$(PYTEST) -q -s -p no:cacheprovider -m unit $(PARSERS)

# Python keeps small objects in blocks of its own, into which ASan does not see: malloc shows reads beyond the end of small
# inputs too. PYTHONMALLOC= make fuzz is up to twice as fast.
PYTHONMALLOC ?= malloc
INPUTS ?= 100000
fuzz: $(SANITIZE)/installed
	@$(SANITIZED) PYTHONMALLOC=$(PYTHONMALLOC) $(SANITIZE)/bin/python -m tests.fuzz $(TARGET) --inputs $(INPUTS) --seed $(or $(SEED),1)

# The units as hardware (docs/machine/rtl.md): all of the co-simulation with the machine and of the proofs, of which make test runs a
# sample, and synthesis, which writes the tables there. No design takes Yosys or nextpnr more than ten minutes each:
# RTL='--threads 1' for some of them, RTL='--minutes 30' for more time.
rtl: $(ALL)/installed
	@HEADWAY_RTL=whole $(ALL_BIN)/$(PYTEST) packages/headway-machine/tests/rtl -v -n auto
	@$(ALL_BIN)/python -m tests.rtl --place $(RTL)

install: $(ALL)/installed

# headway in .venv-all with the reference machine optimised for how it is used (gcc): built to count what runs, trained on the
# programs that come with it, and built again.
fast:
	@rm -rf build/generate build/use
	@CC=$${CC:-gcc} $(PYTHON) -m tools.environment $(ALL) generate
	@$(ALL_BIN)/python -m tools.train_machine
	@rm -rf build/use && cp -r build/generate build/use
	@CC=$${CC:-gcc} $(PYTHON) -m tools.environment $(ALL) use
	@touch $(ALL)/installed

benchmarks: $(ALL)/installed
	@$(ALL_BIN)/python -m benchmarks

$(VENV)/base $(VENV)/test: $(SOURCES) tools/environment.py
	@$(PYTHON) -m tools.environment $(VENV) $(@F)
	@touch $@

$(ALL)/installed: $(SOURCES) tools/environment.py
	@$(PYTHON) -m tools.environment $(ALL) test-all
	@touch $@

$(ALL)/kernels: $(ALL)/installed
	@$(PIP) 'virtme-ng>=1.30' || \
		echo "virtme-ng cannot be installed: no other kernel is tried" >&2
	@touch $@

$(DEV)/installed: pyproject.toml $(wildcard packages/*/pyproject.toml packages/*/meson.*) tools/environment.py
	@$(PYTHON) -m tools.environment $(DEV) check
	@touch $@

$(SANITIZE)/installed: $(SOURCES) tools/environment.py
	@$(PYTHON) -m tools.environment $(SANITIZE) sanitize
	@touch $@

# Queries are tested on Spark too where there is Java, which it needs. What is installed is enough of headway itself.
$(ALL)/spark: $(ALL)/installed
	@$(PIP) 'ibis-framework[pyspark]>=10' 'pyspark>=4'
	@touch $@

# The programs of the reference machine and of the barrel core; they are kept in packages/headway-machine, so only
# a change to their sources needs this.
guest:
	@$(MAKE) --no-print-directory -C packages/headway-machine/src/headway_machine/guest
	@$(MAKE) --no-print-directory -C packages/headway-machine/tests/programs/rv32i

# The front end of the HTML report. It is kept in packages/headway/src/headway/views/html/, so only a change to packages/headway/web needs this, and Node.js.
web:
	@cd packages/headway/web && npm ci --no-audit --no-fund --silent && npm run --silent check && npm run --silent build

# Wheels for x86-64 and arm64 in dist/, of which a user needs no compiler and no library; and the proof, in systems that have
# nothing but Python (as root). What is downloaded is kept between runs: docs/headway/installing.md.
wheels:
	@$(PYTHON) -m tools.wheels --output dist

wheels-check:
	@$(PYTHON) -m tools.wheels.check --wheels dist

clean:
	rm -rf $(VENV) $(ALL) $(DEV) $(SANITIZE) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
