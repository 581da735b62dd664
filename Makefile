# Every target does the set-up it needs; on an empty checkout `make demo` and `make test` just work.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two test processes on two cores: more threads inside each would only get in each other's way.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 POLARS_MAX_THREADS=1
FUZZ_CASES ?= 10000
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n 2

.PHONY: setup demo test test-all fuzz lint format schema results docs bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	touch $(READY)

demo: setup
	rm -rf demo
	$(BIN)/pricdr demo --out demo

test: setup
	$(PYTEST) -m "not statistical and not realdata and not slow"

test-all: setup
	$(PYTEST)

fuzz: setup
	HYPOTHESIS_PROFILE=fuzz $(PYTEST) tests/fuzz -m "not slow"
	$(ONE_THREAD) $(BIN)/python -m tests.fuzz --count $(FUZZ_CASES)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: setup
	$(BIN)/python -c 'import sys; from pricdr.release.certificate import schema_text; sys.stdout.write(schema_text())' \
		> docs/certificate.schema.json
	$(BIN)/python -c 'import sys; from pricdr.experiments.schema import schema_text; sys.stdout.write(schema_text())' \
		> docs/spec.schema.json

results: setup
	$(BIN)/python -m docs._generate.results

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python -m docs._generate.self_contained build/site

bench: setup
	$(BIN)/python -m benchmarks.publish
	$(BIN)/python -m benchmarks.training

clean:
	rm -rf $(VENV) demo build dist
