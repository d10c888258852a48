# Two commands for everybody: make demo, make test. Both make their own environment in .venv.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:

BIN := .venv/bin
READY := .venv/.ready
SAY := echo "penstock:"
# How many processes the tests run in, and how long one round of make fuzz is.
JOBS ?= 2
# How many times make kill-test kills a run.
N ?= 20
EXAMPLES ?= 20000
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo check test test-all fuzz kill-test bench lint format lock clean distclean
.PHONY: check-format check-lint check-types check-imports check-doctests check-tests
.PHONY: quick-tests every-test

help:
	@echo "make demo       a join that Spark refuses, on Spark: changed while it runs, and checked"
	@echo "make check      format, lint, types, imports, and a sample of the tests without Spark"
	@echo "make test       format, lint, types, imports, doctests, tests"
	@echo "make test-all   the same with every script on every flow, order, kernel and batch size"
	@echo "make fuzz       random scripts against the oracle until something breaks or Ctrl-C"
	@echo "make kill-test  kill a run on Spark N=20 times, and compare what comes out in the end"
	@echo "make bench      the benchmarks, as JSON and drawn, into docs/figures"
	@echo "make lint       what make test checks before it runs anything"
	@echo "make format     put the code into shape"
	@echo "make lock       pin the newest versions that pyproject.toml allows"
	@echo "make clean      remove caches; make distclean: .venv too"

# The versions that the pinned packages declare; 3.11 to 3.13 have been tried.
$(READY): requirements.lock pyproject.toml
	@python=""; \
	for candidate in $${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14}; do \
	  if "$$candidate" -c 'import ensurepip, sys, venv; \
	      sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2> /dev/null; \
	  then python="$$candidate"; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  $(SAY) "no usable Python found: it needs 3.11, 3.12, 3.13 or 3.14, with its venv module." >&2; \
	  $(SAY) "Install one, or name one: make $(or $(MAKECMDGOALS),demo) PYTHON=/path/to/python3.12" >&2; \
	  exit 1; \
	fi; \
	$(SAY) "creating .venv with $$python ($$("$$python" -c 'import platform; print(platform.python_version())'))"; \
	"$$python" -m venv .venv
	@$(SAY) "installing the $$(grep -c == requirements.lock) packages of requirements.lock (a minute or two)"
	@$(BIN)/pip install --quiet --requirement requirements.lock
	@$(SAY) "installing penstock itself"
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY)
	@$(SAY) "running the demo (penstock demo)"
	@$(BIN)/penstock demo

check-format: $(READY)
	@$(SAY) "format (ruff format --check)"
	@$(BIN)/ruff format --check .

check-lint: $(READY)
	@$(SAY) "lint (ruff check)"
	@$(BIN)/ruff check .

check-types: $(READY)
	@$(SAY) "types (mypy --strict src)"
	@$(BIN)/mypy --strict src

check-imports: $(READY)
	@$(SAY) "imports (lint-imports)"
	@$(BIN)/lint-imports

check-doctests: $(READY)
	@$(SAY) "doctests (pytest --doctest-modules src)"
	@$(BIN)/pytest --doctest-modules src --quiet | tee .venv/doctests.log

check-tests: $(READY)
	@$(SAY) "tests (pytest -n $(JOBS))"
	@$(BIN)/pytest -n $(JOBS) --dist loadgroup --quiet --hypothesis-profile=ci | tee .venv/tests.log

quick-tests: $(READY)
	@$(SAY) "tests without Spark, a sample (pytest -n $(JOBS) -m 'not spark' --cases few)"
	@$(BIN)/pytest -n $(JOBS) --dist loadgroup --quiet -m "not spark" --cases few \
	  --hypothesis-profile=check

every-test: $(READY)
	@$(SAY) "tests, every case (pytest -n $(JOBS) --cases all)"
	@$(BIN)/pytest -n $(JOBS) --dist loadgroup --quiet --cases all --hypothesis-profile=all

lint: check-format check-lint check-types check-imports

test: lint check-doctests check-tests
	@$(SAY) "all passed: format, lint, types, imports," \
	  "doctests ($$(grep -oE '[0-9]+ passed' .venv/doctests.log | tail -n 1))," \
	  "tests ($$(grep -oE '[0-9]+ passed' .venv/tests.log | tail -n 1))"

check: lint quick-tests
	@$(SAY) "all passed: format, lint, types, imports, a sample of the tests without Spark"

test-all: lint check-doctests every-test

fuzz: $(READY)
	@round=1; \
	while true; do \
	  $(SAY) "fuzz, round $$round: $(EXAMPLES) examples a test (Ctrl-C ends it)"; \
	  PENSTOCK_FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/pytest -n $(JOBS) --quiet -m hypothesis \
	    --hypothesis-profile=fuzz; \
	  round=$$((round + 1)); \
	done

kill-test: $(READY)
	@$(SAY) "killing a run on Spark $(N) times (python -m tests.kill --kills $(N))"
	@$(BIN)/python -m tests.kill --kills $(N)

bench: $(READY)
	@$(SAY) "benchmarks, about forty minutes (python -m bench --figures docs/figures)"
	@$(BIN)/python -m bench --figures docs/figures

format: $(READY)
	@$(SAY) "ruff format, ruff check --fix"
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock: $(READY)
	@$(SAY) "pinning (pip-compile)"
	@$(BIN)/pip install --quiet pip-tools
	@echo "# Every package make installs, pinned with its hashes. Made by: make lock" > .venv/lock
	@$(BIN)/pip-compile pyproject.toml --extra dev --upgrade --generate-hashes --allow-unsafe \
	  --strip-extras --no-header --no-annotate --no-emit-index-url --no-emit-trusted-host \
	  --no-emit-find-links --quiet --output-file - | grep -v '^#' | grep . >> .venv/lock
	@mv .venv/lock requirements.lock

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv src/*.egg-info
