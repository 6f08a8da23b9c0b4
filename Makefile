# Two commands do everything on a fresh machine with Python 3.11 or newer:
#   make demo   installs, runs the main job on the embedded data, says where the figures are
#   make test   installs, passes the tests
# make test-all runs the slow ones (tests/slow.txt) as well. make mutants puts faults into the
# package, each fourth of tests/mutants, and asks whether the tests notice; MUTANTS="theory growth.py"
# those of a list or file, make mutants-all all.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
RESULTS ?= results

.PHONY: demo test test-all mutants mutants-all lint types docs bench clean

demo: $(VENV)/.demo
	$(BIN)/python -m sims price_tanner2019_fig3a --preset quick --out $(RESULTS)
	$(BIN)/python -m sims price_tanner2019_fig3b --preset quick --out $(RESULTS)
	@echo
	@echo "The figures are $(RESULTS)/price_tanner2019_fig3a.png and $(RESULTS)/price_tanner2019_fig3b.png"

test: $(VENV)/.test
	JAXEXPR_TEST_CACHE=$(abspath .cache/tests) $(BIN)/python -m pytest -n 2 --dist loadfile

test-all: $(VENV)/.test
	JAXEXPR_TEST_CACHE=$(abspath .cache/tests) $(BIN)/python -m pytest -n 2 --dist loadfile --all

mutants: $(VENV)/.test
	JAXEXPR_TEST_CACHE=$(abspath .cache/tests) $(BIN)/python tests/mutants/run.py $(or $(MUTANTS),--every 4)

mutants-all: $(VENV)/.test
	JAXEXPR_TEST_CACHE=$(abspath .cache/tests) $(BIN)/python tests/mutants/run.py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

bench: $(VENV)/.test
	$(BIN)/python benchmarks/growth.py --json benchmarks/growth.json
	$(BIN)/python benchmarks/readme.py

clean:
	rm -rf $(VENV) .cache results build dist site

# --group needs pip 25.1.
$(BIN)/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'jaxexpr needs Python 3.11 or newer: make PYTHON=python3.12 ...')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade "pip>=25.1"

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e .
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e . --group dev
	@touch $@

$(VENV)/.docs: $(VENV)/.test
	$(BIN)/python -m pip install -q --group docs
	@touch $@
