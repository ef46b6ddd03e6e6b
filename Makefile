# Everything a newcomer needs: `make run` and `make test`. Both set up their own virtual environment.
VENV   ?= .venv
PY     := $(VENV)/bin/python
# Where the environment forbids bytecode, each run rewrites the assertions of all tests again: 9 s of CPU time.
PYTEST := PYTHONDONTWRITEBYTECODE= $(PY) -m pytest
# What `make run` needs is there; what development needs is there as well.
NEEDED := $(VENV)/.runs
READY  := $(VENV)/.ready
CODE   := src tests examples benchmarks tools
TYPES   = $(VENV)/bin/mypy $(CODE)
# Types are checked while tests wait. What mypy prints comes last, and a failure of either one is a failure. It has one process
# here: on busy cores, workers of mypy start too late for it and end it.
define BESIDE_TYPES
@$(TYPES) >$(VENV)/types.txt 2>&1 & mypy=$$!; $(MAKE) --no-print-directory $(1); tests=$$?; \
	wait $$mypy; types=$$?; cat $(VENV)/types.txt; exit $$((tests | types))
endef
LOCK   := requirements-dev.lock
INSTALL = $(PY) -m pip install --quiet --disable-pip-version-check
# Lock files are complete, so that pip has nothing to resolve.
PINNED  = $(INSTALL) --no-deps --require-hashes
# Installs packages with a tenth of the work of pip, which takes over where it cannot reach a registry.
QUICKLY = $(VENV)/bin/uv pip install --quiet --no-config --python $(PY) --no-deps --require-hashes
MODULE ?= src/mooring/queue/*.py
# Of the last commit. Outside of git the first second that a ZIP archive can name, and so a wheel.
EPOCH  := $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)
# For every platform and version of Python that Mooring supports. A package of the documentation needs 3.11.5.
COMPILE = $(VENV)-lock/bin/uv pip compile --no-config --quiet --upgrade --universal --generate-hashes --no-annotate \
	--custom-compile-command 'make lock'
AS_LOCKED = $(COMPILE) --python-version 3.11 --constraint $(LOCK)

.PHONY: run test smoke check lint types tests fast-tests soak coverage lock hooks docs reference dist release version chart web screenshots
.PHONY: programs early-programs
.PHONY: bench bench-baseline bench-scale bench-compare performance bench-up bench-live bench-one-object mutants figures costly format clean

run: $(NEEDED)  ## start a cluster, apply the examples, and show pods placed, one pending, and a preemption
	PYTHONDONTWRITEBYTECODE= $(VENV)/bin/mooring up --exec 'exec $(PY) examples/up/demonstration.py'

test:  ## everything CI runs: lint, and types beside all tests
	@$(MAKE) --no-print-directory --jobs 2 lint early-programs
	$(call BESIDE_TYPES,tests)

check: lint  ## the inner loop: lint, and types beside the fast tests
	$(call BESIDE_TYPES,fast-tests)

lint: $(READY)
	$(VENV)/bin/ruff format --check $(CODE)
	$(VENV)/bin/ruff check $(CODE)

types: $(READY)
	$(TYPES) --num-workers 2

tests: programs
	$(PYTEST) --forks 4  # many tests wait for processes, so that two workers leave half of two cores idle

smoke: $(READY)  ## what Mooring needs of an API server, on an embedded one or on yours: KUBECONFIG=path ANYWAY=1
	MOORING_SMOKE_KUBECONFIG=$(if $(filter command,$(firstword $(origin KUBECONFIG))),$(abspath $(KUBECONFIG))) \
		MOORING_SMOKE_ANYWAY=$(ANYWAY) $(PYTEST) -rs tests/e2e/test_any_server.py

soak: programs  ## all tests in their full length: every example, seed and hour; for the night
	MOORING_TESTS=soak $(PYTEST) --forks 4

fast-tests: $(READY)
	MOORING_TESTS=check $(PYTEST) --forks 2 -m "not slow"

web:  ## build the dashboard (web/) into src/mooring/dashboard/web/, after its own tests; needs node
	npm --prefix web ci
	npm --prefix web test
	npm --prefix web run build

early-programs:  # packages of Debian and npm arrive while those of Python do
	@python3 tests/programs.py early

programs: $(READY)  ## install the programs that tests need and that are missing, where that is possible
	@$(PY) tests/programs.py

screenshots: programs  ## the pages of the dashboard at 5,000 nodes, into docs/images/
	$(PY) -m pytest tests/browser/screenshots.py

coverage: $(READY)  ## lines and branches that the fast tests reach, in the processes that they start as well
	$(VENV)/bin/coverage erase
	PYTHONDONTWRITEBYTECODE= $(VENV)/bin/coverage run -m pytest --forks 2 -m "not slow"; tests=$$?; \
	$(VENV)/bin/coverage combine --quiet && \
	$(PY) -c "import coverage; found = coverage.Coverage(); found.load(); print(f'{found.html_report():.1f} %')" && exit $$tests

bench: $(READY)  ## every workload with its ratio to the baseline, and how cost grows: RUNS=5 ONLY=basic,spread/100000 PARTS=workloads
	$(PY) benchmarks/bench.py $(if $(RUNS),--runs $(RUNS)) $(if $(ONLY),--only $(ONLY)) $(if $(PARTS),--parts $(PARTS))

bench-baseline: $(READY)  ## the same, recorded as the new baseline and shown in docs/performance.md; on a quiet machine
	$(PY) benchmarks/bench.py --baseline $(if $(RUNS),--runs $(RUNS))
	$(PY) tools/performance.py

bench-scale: $(READY)  ## growth to 1,000,000 nodes, recorded and shown in docs/performance.md: RUNS=1; on a quiet machine with 8 GiB
	$(PY) benchmarks/bench.py --scale $(if $(RUNS),--runs $(RUNS))
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

docs: $(READY)  ## the documentation as a site, in site/index.html; fails on a dead link or a page outside of the navigation
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

reference: $(READY)  ## docs/reference from the code: commands, configuration, metrics, JSON, Python
	$(PY) tools/reference.py

mutants: $(READY)  ## faults that the tests do not notice: MODULE=src/mooring/scheduler/bind.py SAMPLE=50
	$(PY) tools/mutate.py $(MODULE) $(if $(SAMPLE),--sample $(SAMPLE))

bench-one-object: $(READY)  ## what one object with 10,000 entries costs itself and the others; fails if growth is worse than linear
	$(PY) benchmarks/one_object.py
	$(PY) benchmarks/one_object.py --nodes 1000 --only hard_spread,soft_spread

figures: $(READY)  ## sizes, importers, cycles, duplicates and comments of the code: docs/architecture.md, "Before and after"
	$(PY) tools/structure.py --document
	$(PY) benchmarks/walks.py
	$(PY) benchmarks/reading_walks.py

costly: $(READY)  ## measure which tests `make check` leaves out: tests/costly_tests.txt
	$(PY) tools/costly_tests.py

format: $(READY)
	$(VENV)/bin/ruff format $(CODE)
	$(VENV)/bin/ruff check --fix $(CODE)

dist: $(READY)  ## wheel and sdist in dist/, checked; equal byte for byte for one commit
	rm -rf dist
	SOURCE_DATE_EPOCH=$(EPOCH) $(PY) -m build --no-isolation --outdir dist
	$(VENV)/bin/twine check --strict dist/*

release: dist  ## all files of a release in dist/, with checksums: VERSION=0.3.0 refuses another version, or one without notes; OWNER=acme for krew
	SOURCE_DATE_EPOCH=$(EPOCH) $(PY) tools/release.py $(if $(VERSION),--version $(VERSION)) $(if $(REPOSITORY),--repository $(REPOSITORY)) \
		$(if $(OWNER),--owner $(OWNER))

version: $(READY)  ## write the version of src/mooring/kit/version.py into the files that have to name it
	$(PY) tools/stamp_version.py

chart: $(READY)  ## write the table of values in the README of the Helm chart, and the dashboard for Grafana
	$(PY) tools/chart_readme.py
	$(PY) tools/grafana_dashboard.py

lock: pyproject.toml  ## pin the newest versions, with hashes, of what development, `make run` and the image need
	rm -rf $(VENV)-lock
	python3 -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(COMPILE) --python-version 3.11.5 pyproject.toml --extra dev --extra docs --output-file $(LOCK)
	$(AS_LOCKED) pyproject.toml --output-file requirements.lock
	$(AS_LOCKED) pyproject.toml --extra tracing --output-file deploy/image.lock
	echo uv | $(COMPILE) --python-version 3.11 - --output-file requirements-uv.lock
	echo hatchling | $(AS_LOCKED) - --output-file deploy/build.lock
	rm -rf $(VENV)-lock

hooks: $(READY)  ## make git run `make lint` and `make types` before each commit
	$(VENV)/bin/pre-commit install

$(NEEDED): pyproject.toml requirements.lock requirements-uv.lock deploy/build.lock
	@echo "Installing what Mooring needs to run into $(VENV): 31 packages, once."
	@python3 -m venv $(VENV)
	@$(PINNED) -r requirements-uv.lock
	@$(QUICKLY) -r requirements.lock -r deploy/build.lock || $(PINNED) -r requirements.lock -r deploy/build.lock
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@$(PY) -m compileall -q src  # a start takes 0.35 s less where PYTHONDONTWRITEBYTECODE is set
	@touch $@

$(READY): $(NEEDED) $(LOCK)
	@echo "Installing what development needs into $(VENV): 143 packages more, once."
	@$(QUICKLY) -r $(LOCK) || $(PINNED) -r $(LOCK)
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .coverage* htmlcov build dist site
