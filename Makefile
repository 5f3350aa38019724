# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: setup demo test check docs bench world clean

setup: .venv/ready

# installed again whenever what is to be installed changes
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "deadhead needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/deadhead demo

test: setup
	$(BIN)/python -m pytest -n 2

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# the pages of docs/ as a site in ./site, with the lists of commands and recipes made anew
docs: setup
	$(BIN)/python docs/make.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: setup
	$(BIN)/python benchmarks/heads.py

# pre-trains the two tiny models of the small world anew: minutes on a GPU, hours on two cores
world: setup
	$(BIN)/python -m deadhead.world.build

clean:
	rm -rf .venv build dist out site .pytest_cache .mypy_cache .ruff_cache .hypothesis
