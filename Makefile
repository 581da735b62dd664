# Every target does the set-up it needs; on an empty checkout `make demo` and `make test` just work.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two test processes on two cores: more threads inside each would only get in each other's way.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 POLARS_MAX_THREADS=1
FUZZ_CASES ?= 10000
# Tests differ in length by a factor of ten thousand: whoever is done takes over what the other has not begun.
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: system setup demo test test-all fuzz lint format schema results docs bench bench-scale clean

# The browser that pages are tested in. A machine that cannot have it builds all the same: those tests say why they skip.
system:
	@if command -v "$${PRICDR_CHROMIUM:-chromium}" >/dev/null; then \
		echo "system: nothing to do, $$(command -v "$${PRICDR_CHROMIUM:-chromium}") is there"; \
	elif ! command -v apt-get >/dev/null; then \
		echo "system: no apt-get here; install chromium yourself, or tests in a browser are skipped"; \
	elif [ "$$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then \
		echo "system: apt-get needs root; run 'sudo make system', or tests in a browser are skipped"; \
	elif as=$$([ "$$(id -u)" = 0 ] || echo sudo -n); $$as apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive $$as apt-get install -qq -y --no-install-recommends chromium >/dev/null; then \
		echo "system: installed chromium with apt-get"; \
	else \
		echo "system: apt-get could not install chromium; tests in a browser are skipped"; \
	fi

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

bench-scale: setup
	$(BIN)/python -m benchmarks.scale

clean:
	rm -rf $(VENV) demo build dist
