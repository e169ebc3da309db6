# Two commands do everything on a machine with Python 3.11 and make:
#   make demo   installs fitscope and a backend into .venv and records a bundled slow example
#   make test   installs all three backends into .venv and runs the tests
PYTHON ?= python3
BIN := .venv/bin

.PHONY: browser demo test thorough check lint docs corpus corpus-fix overhead clean

demo: .venv/demo
	$(BIN)/fitscope demo

test: .venv/all browser
	$(BIN)/python -m pytest

thorough: .venv/all
	FITSCOPE_THOROUGH=1 FITSCOPE_KILLS=50 $(BIN)/python -m pytest tests/remedy tests/truth/test_rules.py

check: .venv/all lint browser
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

# CASES="c03 c24" takes those whose names begin so.
corpus-fix: .venv/corpus
	$(BIN)/python corpus/fix.py $(CASES)

overhead: .venv/benchmark
	$(BIN)/python benchmarks/overhead.py

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

.venv/demo: pyproject.toml | .venv/bin/python
	$(BIN)/pip install --quiet --editable . keras==3.15.1 tensorflow-cpu==2.21.0
	touch $@

.venv/all: pyproject.toml | .venv/bin/python
	$(BIN)/pip install --quiet --editable . --group backends --group test --group trackers --group page --group check
	touch $@ .venv/demo

# The page is tested in Debian's chromium. Where there is none and we may not install it, those tests are skipped.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && \
	  command -v apt-get >/dev/null && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
	  echo "no chromium, and none can be installed: the tests of the page are skipped"

.venv/corpus: .venv/all
	$(BIN)/pip install --quiet --group corpus
	touch $@

.venv/benchmark: .venv/all
	$(BIN)/pip install --quiet --group benchmark
	touch $@

clean:
	rm -rf .venv dist .mypy_cache .ruff_cache .pytest_cache
