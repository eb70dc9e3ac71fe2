PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PEERS ?= .venv-peers
LOWEST ?= .venv-lowest
NEWEST ?= .venv-newest
FIRST := tests/bounds tests/designs tests/envelope tests/privacy tests/solvers tests/strategies tests/streams tests/verify

unexport PYTHONDONTWRITEBYTECODE # the tests start many processes: modules are compiled once

.PHONY: demo dist test lint types unit first others quick quick-odd quick-even test-lowest test-newest docs fuzz robust benchmark benchmark-peers benchmark-own clean

demo: $(VENV)/demo.stamp ## install, then publish a table of invented people
	rm -rf build/demo
	$(BIN)/pmldesign demo people build/demo

test: lint types unit ## lint, types, tests

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/prose.py

types: $(VENV)/test.stamp
	$(BIN)/mypy

unit: export OPENBLAS_NUM_THREADS = 1
unit: $(VENV)/test.stamp
	$(MAKE) --no-print-directory -j 2 first others # two processes, each with about half of the work

first:
	$(BIN)/pytest $(FIRST)

others:
	$(BIN)/pytest $(FIRST:%=--ignore=%)

quick: export OPENBLAS_NUM_THREADS = 1
quick: $(VENV)/test.stamp ## a third of the tests, of every room, in half a minute: the files of tests/quick.txt
	$(MAKE) --no-print-directory -j 2 quick-odd quick-even

quick-odd:
	$(BIN)/pytest $(shell sed -n 'p;n' tests/quick.txt)

quick-even:
	$(BIN)/pytest $(shell sed -n 'n;p' tests/quick.txt)

test-lowest: export OPENBLAS_NUM_THREADS = 1
test-lowest: $(LOWEST)/lowest.stamp ## tests with the lowest versions of pyproject.toml; of old ones, deprecations count for nothing
	$(LOWEST)/bin/python -m pytest -W ignore::DeprecationWarning

test-newest: export OPENBLAS_NUM_THREADS = 1
test-newest: $(NEWEST)/newest.stamp ## tests with the newest versions, without bounds; PYTHON=python3.13
	$(NEWEST)/bin/python -m pytest

docs: export OPENBLAS_NUM_THREADS = 1
docs: $(VENV)/docs.stamp ## the site, in build/docs; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

fuzz: export OPENBLAS_NUM_THREADS = 1
fuzz: $(VENV)/test.stamp ## 5000 odd command lines and damaged files; FUZZ="--seed 7 --cases 200"
	cd tests && ../$(BIN)/python -m fuzz $(FUZZ)

robust: export OPENBLAS_NUM_THREADS = 1
robust: $(VENV)/test.stamp ## random matrices of every scale, cases moved by rounding, interrupted commands, killed streams, whole sweeps: minutes
	$(BIN)/python tests/robustness/attack.py
	$(BIN)/python tests/robustness/perturbed.py
	$(BIN)/python tests/robustness/verified.py
	$(BIN)/python tests/robustness/released.py
	$(BIN)/python tests/robustness/forged.py --files 1000
	$(BIN)/python tests/robustness/loaded.py
	$(BIN)/python tests/robustness/interrupted.py
	$(BIN)/python tests/robustness/killed.py
	$(BIN)/python tests/robustness/ledgers.py
	$(BIN)/pytest --sweeps -m sweep

benchmark: $(VENV)/test.stamp ## solvers side by side, results in benchmarks/results/
	$(BIN)/python benchmarks/run.py

benchmark-peers: $(PEERS)/peers.stamp ## the same with jax-privacy, in an environment of its own
	$(PEERS)/bin/python benchmarks/run.py

benchmark-own: export OPENBLAS_NUM_THREADS = 1
benchmark-own: $(VENV)/test.stamp ## hard duals and marginals, the own solvers alone
	$(BIN)/python benchmarks/hard_duals.py
	$(BIN)/python benchmarks/marginals.py

dist: $(VENV)/test.stamp ## build sdist and wheel, install each into an empty environment, try them there
	rm -rf dist
	$(BIN)/uv build --quiet --out-dir dist
	for file in dist/*.whl dist/*.tar.gz; do sh tests/try_dist.sh "$$file" "$(PYTHON)" || exit 1; done

$(VENV)/demo.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable ".[release,plot,verify]"
	touch $@

$(VENV)/test.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet uv # with which the rest takes a third of pip's time; pip may know of other indexes
	$(BIN)/uv pip install --quiet --python $(VENV) --editable ".[plot,test]" \
		|| $(BIN)/pip install --quiet --no-compile --editable ".[plot,test]"
	touch $@

$(VENV)/docs.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable ".[docs]"
	touch $@

$(LOWEST)/lowest.stamp: pyproject.toml
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/pip install --quiet uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST) --resolution lowest-direct --editable ".[plot,test]"
	touch $@

$(NEWEST)/newest.stamp: pyproject.toml
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/pip install --quiet uv
	sed -n 's/^  "\([a-z-]*\).*<.*",$$/\1/p' pyproject.toml > $(NEWEST)/unbounded.txt
	$(NEWEST)/bin/uv pip install --quiet --python $(NEWEST) --override $(NEWEST)/unbounded.txt --editable ".[plot,test]"
	touch $@

$(PEERS)/peers.stamp: pyproject.toml benchmarks/requirements.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --requirement benchmarks/requirements.txt --editable ".[plot]"
	touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(LOWEST) $(NEWEST) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
