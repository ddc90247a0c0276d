# Two commands do everything: `make demo` and `make test`. Each sets up .venv first if it must.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# Modules are compiled when they are first imported: most installed modules never are. Bytecode must be kept then, or
# every process compiles torch again, which takes seconds.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
PYTEST := $(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal
SLOW := fastapi, httpx, ipykernel, lightning, mkdocs, mlflow, nbclient, powerlaw, ray, tensorboard, triton, wandb
# The files of these tests alone: to look for the marker in all of them is to import all of them.
TRITON = $$(grep -rl --include='test_*.py' 'mark\.triton' tests)

.PHONY: setup demo test unit test-all test-browser fuzz results-docs bench bench-against docs wheel lint types format clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) torch
	$(INSTALL) -e '.[dev]'
	touch $(STAMP)

demo: setup
	$(BIN)/python examples/demo.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: setup
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Types are checked beside the tests: mypy has one process, and the tests wait for others now and then.
test: lint
	$(MAKE) --no-print-directory --jobs 2 types unit

unit: setup
	$(PYTEST)

test-all: lint types
	$(BIN)/python -c 'import $(SLOW)' 2>/dev/null || $(INSTALL) -e '.[slow]'
	$(PYTEST) -m "" --hypothesis-profile search
	$(PYTEST) $(TRITON) -m triton --hypothesis-profile search

test-browser: setup
	command -v chromium >/dev/null || apt-get install -y chromium
	$(BIN)/pytest -m slow tests/report/test_browser.py

docs: setup
	$(BIN)/python -c 'import material, mkdocstrings' 2>/dev/null || $(INSTALL) -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The tables, sentences and pictures of the pages from docs/results; `make results-docs FROM=runs/study-survey-laptop`, or
# FROM=NAME=FOLDER, makes that record anew first.
results-docs: setup
	$(BIN)/python docs/results.py $(FROM)

fuzz: setup
	PYTHONPATH=tests $(BIN)/python -m fuzz --cases 10000

# Paired measurements, one line per commit in benchmarks/history.jsonl.
bench: setup
	$(BIN)/python -m benchmarks.record

# `make bench-against 783d0cf` or `make bench-against COMMIT=783d0cf`: the word after the goal is no goal of its own.
ifeq (bench-against,$(firstword $(MAKECMDGOALS)))
COMMIT ?= $(word 2,$(MAKECMDGOALS))
$(eval $(word 2,$(MAKECMDGOALS)):;@:)
endif
bench-against: setup
	$(BIN)/python -m benchmarks.against $(COMMIT)

# The wheel, installed as a user would and used away from the checkout: nothing of it may be missing.
wheel: setup
	rm -rf build dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	$(BIN)/python examples/try_wheel.py dist/*.whl constraints.txt

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache runs site
