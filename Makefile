# Two commands do everything on a machine with Python 3.11 and make:
#   make demo   installs fitscope and a backend into .venv and records a bundled slow example
#   make test   installs all three backends into .venv and runs the tests
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test thorough check lint docs corpus overhead clean

demo: .venv/demo
	$(BIN)/fitscope demo

test: .venv/all
	$(BIN)/python -m pytest

thorough: .venv/all
	FITSCOPE_THOROUGH=1 FITSCOPE_KILLS=50 $(BIN)/python -m pytest tests/remedy

check: .venv/all lint
	$(BIN)/python -m pytest

lint: .venv/all
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

docs: .venv/all
	$(BIN)/python docs/generate.py

corpus: .venv/corpus
	$(BIN)/python corpus/run.py

overhead: .venv/benchmark
	$(BIN)/python benchmarks/overhead.py

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

.venv/demo: pyproject.toml | .venv/bin/python
	$(BIN)/pip install --quiet --editable . keras==3.15.1 tensorflow-cpu==2.21.0
	touch $@

.venv/all: pyproject.toml | .venv/bin/python
	$(BIN)/pip install --quiet --editable . --group backends --group test --group check
	touch $@ .venv/demo

.venv/corpus: .venv/all
	$(BIN)/pip install --quiet --group corpus
	touch $@

.venv/benchmark: .venv/all
	$(BIN)/pip install --quiet --group benchmark
	touch $@

clean:
	rm -rf .venv dist .mypy_cache .ruff_cache .pytest_cache
