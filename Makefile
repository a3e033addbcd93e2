# Needs Python 3.11 or newer and make; everything else goes into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CODE := shared services tests benchmarks
MAX_LINES := 400

# Compiled modules make every start after the first one fast.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run test check bench clean

help:
	@echo "make setup   create $(VENV) and install everything into it"
	@echo "make run     run examples/hello.yaml on an embedded stack"
	@echo "make test    all tests"
	@echo "make check   linter, types, import layers, file lengths"
	@echo "make bench   benchmarks"

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 setup" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

run: setup
	@$(BIN)/noetlctl run examples/hello.yaml --folder .noetl/run

# Files in two processes: most tests wait for servers and processes, not for the processor.
test: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: setup
	$(BIN)/ruff check $(wildcard $(CODE))
	$(BIN)/mypy
	$(BIN)/lint-imports
	@find $(wildcard $(CODE)) -name '*.py' -exec awk -v max=$(MAX_LINES) \
		'FNR == max + 1 { print FILENAME ": over " max " lines: split it"; bad = 1 } END { exit bad }' {} +

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
