# Everything a newcomer needs: `make run` and `make test`. Both set up their own virtual environment.
VENV   ?= .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready
CODE   := src tests examples benchmarks tools
LOCK   := requirements-dev.lock
MODULE ?= src/mooring/queue/*.py

.PHONY: run test check lint types tests fast-tests coverage lock hooks
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

tests: $(READY)
	$(PY) -m pytest -n 2

fast-tests: $(READY)
	MOORING_HYPOTHESIS=check $(PY) -m pytest -n 2 -m "not slow"

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

lock: pyproject.toml  ## pin the newest versions of what development needs, in requirements-dev.lock
	rm -rf $(VENV)-lock
	python3 -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	(sed -n '/^#/p' $(LOCK); $(VENV)-lock/bin/python -m pip freeze --exclude-editable) > $(LOCK).new
	mv $(LOCK).new $(LOCK)
	rm -rf $(VENV)-lock

hooks: $(READY)  ## make git run `make lint` and `make types` before each commit
	$(VENV)/bin/pre-commit install

$(READY): pyproject.toml $(LOCK)
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -c $(LOCK) -e '.[dev]'
	$(PY) -m compileall -q src  # a start takes 0.35 s less where PYTHONDONTWRITEBYTECODE is set
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .coverage* htmlcov build
