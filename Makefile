# Everything a newcomer needs: `make run` and `make test`. Both set up their own virtual environment.
VENV   ?= .venv
PY     := $(VENV)/bin/python
# Where the environment forbids bytecode, each worker rewrites the assertions of all tests again: 12 s of CPU time.
PYTEST := PYTHONDONTWRITEBYTECODE= $(PY) -m pytest
READY  := $(VENV)/.ready
DOCS   := $(VENV)/.docs-ready
CODE   := src tests examples benchmarks tools
LOCK   := requirements-dev.lock
APT    := DEBIAN_FRONTEND=noninteractive timeout 300 apt-get
MODULE ?= src/mooring/queue/*.py
# Of the last commit. Outside of git the first second that a ZIP archive can name, and so a wheel.
EPOCH  := $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)
# For every platform and version of Python that Mooring supports, with the versions of the other lock file.
COMPILE = $(VENV)-lock/bin/uv pip compile --no-config --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --custom-compile-command 'make lock' --constraint $(LOCK)

.PHONY: run test check lint types tests fast-tests coverage lock hooks docs reference dist version chart web browser screenshots
.PHONY: bench bench-baseline bench-compare performance bench-up bench-live bench-one-object mutants figures format clean

run: $(READY)  ## start a cluster, apply the examples, and show pods placed, one pending, and a preemption
	$(VENV)/bin/mooring up --exec 'exec $(PY) examples/up/demonstration.py'

test: lint types tests  ## everything CI runs

check: lint types fast-tests  ## the inner loop: lint, types, layers, fast tests

lint: $(READY)
	$(VENV)/bin/ruff format --check $(CODE)
	$(VENV)/bin/ruff check $(CODE)

types: $(READY)
	$(VENV)/bin/mypy $(CODE)

tests: $(READY) $(DOCS)
	$(PYTEST) -n 3  # many tests wait for processes, so that two workers leave half of two cores idle

fast-tests: $(READY)
	MOORING_HYPOTHESIS=check $(PYTEST) -n 2 -m "not slow"

web:  ## build the dashboard (web/) into src/mooring/dashboard/web/, after its own tests; needs node
	npm --prefix web ci
	npm --prefix web test
	npm --prefix web run build

browser: $(READY)  ## what the tests in a browser need: chromium from the distribution's packages, and the script of axe
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && $(APT) update -q && $(APT) install -q -y chromium; } \
	  || echo "chromium is missing and cannot be installed here: the tests in a browser are skipped"
	@[ -d web/node_modules ] || { command -v npm >/dev/null && npm --prefix web ci; } \
	  || echo "npm is missing: the tests in a browser check no accessibility"

screenshots: browser  ## the pages of the dashboard at 5,000 nodes, into docs/images/
	MOORING_SCREENSHOTS=1 $(PY) -m pytest tests/browser

coverage: $(READY)  ## lines and branches that the fast tests reach, in the processes that they start as well
	$(VENV)/bin/coverage erase
	$(PY) -m pytest -n 2 -m "not slow" --cov --cov-report=
	$(VENV)/bin/coverage report --format=total
	$(VENV)/bin/coverage html --quiet

bench: $(READY)  ## every workload with its ratio to the baseline, and how cost grows: RUNS=5 ONLY=basic,spread/100000 PARTS=workloads
	$(PY) benchmarks/bench.py $(if $(RUNS),--runs $(RUNS)) $(if $(ONLY),--only $(ONLY)) $(if $(PARTS),--parts $(PARTS))

bench-baseline: $(READY)  ## the same, recorded as the new baseline and shown in docs/performance.md; on a quiet machine
	$(PY) benchmarks/bench.py --baseline $(if $(RUNS),--runs $(RUNS))
	$(PY) tools/performance.py

bench-compare: $(READY)  ## this checkout against another commit, measured in turn: BASE=v0.1 RUNS=5 ONLY=basic,spread/100000
	$(PY) benchmarks/compare.py $(BASE) $(if $(RUNS),--runs $(RUNS)) $(if $(ONLY),--only $(ONLY))

performance: $(READY)  ## tables and plots of docs/performance.md, from benchmarks/results/baseline.json
	$(PY) tools/performance.py

bench-up: $(READY)  ## pods a second of the embedded cluster, in process and over HTTPS
	$(PY) benchmarks/embedded.py
	$(PY) benchmarks/embedded.py --http --pods 5000

bench-live: $(READY)  ## CPU for each bound pod, memory and start of `mooring run`
	$(PY) benchmarks/live.py

docs: $(DOCS)  ## the documentation as a site, in site/index.html; fails on a dead link or a page outside of the navigation
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

reference: $(READY)  ## docs/reference from the code: commands, configuration, metrics, JSON, Python
	$(PY) tools/reference.py

mutants: $(READY)  ## faults that the tests do not notice: MODULE=src/mooring/scheduler/bind.py SAMPLE=50
	$(PY) tools/mutate.py $(MODULE) $(if $(SAMPLE),--sample $(SAMPLE))

bench-one-object: $(READY)  ## what one object with 10,000 entries costs itself and the others; fails if growth is worse than linear
	$(PY) benchmarks/one_object.py
	$(PY) benchmarks/one_object.py --nodes 1000 --only hard_spread,soft_spread

figures: $(READY)  ## sizes, importers, cycles, duplicates and comments of the code: docs/architecture.md, "Before and after"
	$(PY) tools/structure.py
	$(PY) benchmarks/walks.py

format: $(READY)
	$(VENV)/bin/ruff format $(CODE)
	$(VENV)/bin/ruff check --fix $(CODE)

dist: $(READY)  ## wheel and sdist in dist/, checked; equal byte for byte for one commit
	rm -rf dist
	SOURCE_DATE_EPOCH=$(EPOCH) $(PY) -m build --no-isolation --outdir dist
	$(VENV)/bin/twine check --strict dist/*

version: $(READY)  ## write the version of src/mooring/kit/version.py into the files that have to name it
	$(PY) tools/stamp_version.py

chart: $(READY)  ## write the table of values in the README of the Helm chart
	$(PY) tools/chart_readme.py

lock: pyproject.toml  ## pin the newest versions of what development and the image need
	rm -rf $(VENV)-lock
	python3 -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev,docs]'
	(sed -n '/^#/p' $(LOCK); $(VENV)-lock/bin/python -m pip freeze --exclude-editable) > $(LOCK).new
	mv $(LOCK).new $(LOCK)
	$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	echo hatchling | $(COMPILE) - --output-file deploy/build.lock
	$(COMPILE) pyproject.toml --extra tracing --output-file deploy/image.lock
	rm -rf $(VENV)-lock

hooks: $(READY)  ## make git run `make lint` and `make types` before each commit
	$(VENV)/bin/pre-commit install

$(READY): pyproject.toml $(LOCK)
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -c $(LOCK) -e '.[dev]'
	$(PY) -m compileall -q src  # a start takes 0.35 s less where PYTHONDONTWRITEBYTECODE is set
	touch $@

$(DOCS): $(READY)
	$(PY) -m pip install --quiet --disable-pip-version-check -c $(LOCK) -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .coverage* htmlcov build dist site
