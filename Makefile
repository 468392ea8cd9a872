# Few targets; continuous integration calls only these. `make up` and `make test` need Python 3.11+ and nothing else.
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv

.PHONY: up test lint bench e2e docs clean

up: .venv/.base
	@$(BIN)/numaware topology show

test: .venv/.dev
	$(BIN)/pytest

lint: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.dev
	$(BIN)/pytest benchmarks

# The virtual environment, from the lock file. A run-time install never removes what the developer install added.
$(UV):
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv==0.13.7

.venv/.base: $(UV) pyproject.toml uv.lock
	$(UV) sync --quiet --frozen --no-dev --inexact
	@touch $@

.venv/.dev: $(UV) pyproject.toml uv.lock
	$(UV) sync --quiet --frozen --inexact
	@touch $@ .venv/.base

clean:
	rm -rf .venv dist site
