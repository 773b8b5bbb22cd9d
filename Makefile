# Two commands to know: make demo, make test. Each makes the virtual environment it needs.
# While you work, `make check` is enough; every night, `make test-all` runs what takes longest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNELS := setup.py $(wildcard src/dpsu/kernels/*.py src/dpsu/kernels/*.pxd src/dpsu/kernels/*.h)

.PHONY: demo check test test-all lint audit mutants bench papers peers soak docs clean
.DEFAULT_GOAL := demo

# Installing compiles the kernels beside their sources, those that have changed since.
$(VENV)/.demo: pyproject.toml $(KERNELS)
	@echo "Installing dpsu and compiling its loops: one to three minutes the first time."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.test: pyproject.toml $(KERNELS)
	@echo "Installing dpsu with what its tests need, and compiling its loops: a few minutes the first time."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

# For the figures of the documentation, which nothing else draws.
$(VENV)/.plots: $(VENV)/.test
	$(BIN)/pip install --quiet --disable-pip-version-check 'matplotlib>=3.8'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/dpsu demo

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

audit: $(VENV)/.test
	$(BIN)/dpsu audit --markdown docs/figures/audit.md
	$(BIN)/python -m tools.pages

# Weakens every guarantee on purpose, one change at a time, and sees whether a test notices.
mutants: $(VENV)/.test
	$(BIN)/python -m tools.mutants --jobs 2 --record
	$(BIN)/python -m tools.pages

bench: $(VENV)/.plots
	$(BIN)/python -m benchmarks.speed S M
	$(BIN)/python benchmarks/spark.py M
	$(BIN)/python -m tools.plots
	$(BIN)/python -m tools.pages

# Without DATA, the made-up corpus only; with DATA=folder, whatever of the shared sets and of the
# papers' own files the folder holds.
papers: $(VENV)/.plots
	$(BIN)/python -m benchmarks.gopi2020 $(if $(DATA),--data "$(DATA)")
	$(BIN)/python -m benchmarks.carvalho2022 $(if $(DATA),--data "$(DATA)")
	$(BIN)/python -m tools.plots
	$(BIN)/python -m tools.pages

# Released keys in other libraries, each installed in an environment of its own in .peers; some of
# them need Python 3.11 (PEERS_PYTHON) and Java. About 4 GB, and a quarter of an hour.
peers: $(VENV)/.test
	$(BIN)/python -m tools.peers.oracles $(if $(PEERS_PYTHON),--python "$(PEERS_PYTHON)")
	$(BIN)/python -m tools.peers $(if $(PEERS_PYTHON),--python "$(PEERS_PYTHON)")
	$(BIN)/python -m tools.pages

# Twenty minutes of attacks from outside, or MINUTES; what they find is added to the results.
soak: $(VENV)/.test
	$(BIN)/python -m tools.soak --minutes $(or $(MINUTES),20) \
		--results benchmarks/results/soak.json
	$(BIN)/python -m tools.pages

docs: $(VENV)/.test
	$(BIN)/python -m tools.pages
	$(BIN)/mkdocs build --strict

# Linters, types and the fast tests.
check: lint
	$(BIN)/pytest -n 2 -m "not slow and not spark and not thorough"

# Every test that guards a guarantee, with one real run of each engine, database and browser.
test: lint
	$(BIN)/pytest -n 2 -m "not thorough" --durations=40

# Every test, also of all combinations of options, pages and wheels, and a soak of 20 minutes, or MINUTES.
test-all: lint
	$(BIN)/pytest -n 2 --durations=40
	$(BIN)/python -m tools.soak --minutes $(or $(MINUTES),20)

clean:
	find src -name "*.so" -delete -o -name "*.pyd" -delete
	rm -rf $(VENV) .peers build site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
