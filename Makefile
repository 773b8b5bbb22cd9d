# Two commands to know: make demo, make test. Each makes the virtual environment it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo postgres test lint audit bench papers docs clean
.DEFAULT_GOAL := demo

$(VENV)/.demo: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.test: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/dpsu demo

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

audit: $(VENV)/.test
	$(BIN)/dpsu audit --markdown docs/audit.md

bench: $(VENV)/.test
	$(BIN)/python benchmarks/speed.py S M
	$(BIN)/python benchmarks/spark.py M
	$(BIN)/python -m tools.plots
	$(BIN)/python -m tools.pages

# Without DATA, the made-up corpus only; with DATA=folder, whatever of the shared sets and of the
# papers' own files the folder holds.
papers: $(VENV)/.test
	$(BIN)/python -m benchmarks.gopi2020 $(if $(DATA),--data "$(DATA)")
	$(BIN)/python -m benchmarks.carvalho2022 $(if $(DATA),--data "$(DATA)")
	$(BIN)/python -m tools.plots
	$(BIN)/python -m tools.pages

docs: $(VENV)/.test
	$(BIN)/python -m tools.pages
	$(BIN)/mkdocs build --strict

# Queries are tested against a real server where one can be had; without it those tests are skipped.
postgres:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
		{ test "$$(id -u)" = 0 && apt-get install -y -qq postgresql >/dev/null 2>&1; } || \
		echo "no PostgreSQL: its tests are skipped (Debian package postgresql)"

test: lint postgres
	$(BIN)/pytest -n 2

clean:
	rm -rf $(VENV) build site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
