PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types unit benchmark clean

demo: $(VENV)/demo.stamp ## install, then design a strategy for a census table
	$(BIN)/pmldesign optimize census-p12 --epsilon 1 --delta 1e-6

test: lint types unit ## lint, types, tests

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test.stamp
	$(BIN)/mypy

unit: $(VENV)/test.stamp
	$(BIN)/pytest

benchmark: $(VENV)/test.stamp ## solvers side by side, results in benchmarks/results/
	$(BIN)/python benchmarks/run.py

$(VENV)/demo.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/test.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable ".[plot,test]"
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
