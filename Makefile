# Every target does the set-up it needs; on an empty checkout `make demo` and `make test` just work.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LIGHT := $(VENV)/.light
READY := $(VENV)/.ready
EXTRAS := $(VENV)/.extras
POSTGRESQL ?= /usr/lib/postgresql
NGINX ?= /usr/sbin/nginx
# Two test processes on two cores: more threads inside each would only get in each other's way.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 POLARS_MAX_THREADS=1
FUZZ_CASES ?= 10000
# Tests differ in length by a factor of ten thousand: whoever is done takes over what the other has not begun.
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: system system-packages extras setup demo test test-all fuzz lint format schema results docs dist bench bench-scale clean

# What some tests need beside Python, and the engines and sources that not everybody has. A machine that cannot have it
# builds all the same: those tests say why they skip.
system: system-packages extras

# A browser for pages, Java for Spark, PostgreSQL to read from, wrk to load a server with and nginx to put in front of
# it: Debian's packages, of what is not there.
system-packages:
	@wanted=; \
	command -v "$${PRICDR_CHROMIUM:-chromium}" >/dev/null || wanted="$$wanted chromium"; \
	command -v wrk >/dev/null || wanted="$$wanted wrk"; \
	command -v nginx >/dev/null || [ -x $(NGINX) ] || wanted="$$wanted nginx-light"; \
	command -v java >/dev/null || wanted="$$wanted default-jre-headless"; \
	set -- $(POSTGRESQL)/*/bin/postgres; \
	command -v postgres >/dev/null || [ -x "$$1" ] || wanted="$$wanted postgresql"; \
	if [ -z "$$wanted" ]; then \
		echo "system: nothing to do, a browser, Java, PostgreSQL, wrk and nginx are there"; \
	elif ! command -v apt-get >/dev/null; then \
		echo "system: no apt-get here; install$$wanted yourself, or tests that need them are skipped"; \
	elif [ "$$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then \
		echo "system: apt-get needs root; run 'sudo make system-packages', or tests that need$$wanted are skipped"; \
	else \
		as=$$([ "$$(id -u)" = 0 ] || echo sudo -n); $$as apt-get update -qq; \
		for package in $$wanted; do \
			if DEBIAN_FRONTEND=noninteractive $$as apt-get install -qq -y --no-install-recommends $$package >/dev/null; then \
				echo "system: installed $$package with apt-get"; \
			else \
				echo "system: apt-get could not install $$package; tests that need it are skipped"; \
			fi; \
		done; \
	fi

extras: $(EXTRAS)

# After setup, never beside it: two pips must not change one environment at the same time.
$(EXTRAS): $(READY)
	@if $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[spark,sql]'; then \
		touch $(EXTRAS); \
	else \
		echo "system: pip could not install the extras spark and sql; tests that need them are skipped"; \
	fi

setup: $(READY)

# What the demo needs: the program, what trains and what draws; no linters, browsers or tools for tests and documents.
$(LIGHT): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[train,report]'
	touch $(LIGHT)

$(READY): $(LIGHT)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	touch $(READY)

demo: $(LIGHT)
	rm -rf demo
	$(BIN)/pricdr demo --out demo

test: setup
	$(PYTEST) -m "not statistical and not realdata and not slow and not browser"

test-all: setup
	$(PYTEST)

fuzz: setup
	HYPOTHESIS_PROFILE=fuzz $(PYTEST) tests/fuzz -m "not slow"
	$(ONE_THREAD) $(BIN)/python -m tests.fuzz --count $(FUZZ_CASES)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: setup
	$(BIN)/python -c 'import sys; from pricdr.release.certificate import schema_text; sys.stdout.write(schema_text())' \
		> docs/certificate.schema.json
	$(BIN)/python -c 'import sys; from pricdr.experiments.spec import schema_text; sys.stdout.write(schema_text())' \
		> docs/spec.schema.json

results: setup
	$(BIN)/python -m docs._generate.results

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python -m docs._generate.self_contained build/site

# A wheel, into dist/: pip finds no package named pricdr elsewhere.
dist:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

bench: setup
	$(BIN)/python -m benchmarks.publish
	$(BIN)/python -m benchmarks.training

bench-scale: setup
	$(BIN)/python -m benchmarks.scale

clean:
	rm -rf $(VENV) demo build dist
