# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --disable-pip-version-check
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: setup demo test check docs bench world clean

# everything for development
setup: .venv/ready

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "deadhead needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv

# each installed again whenever what is to be installed changes
.venv/ready: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing deadhead and all that its development needs into .venv"
	$(INSTALL) -e '.[dev]'
	touch .venv/ready-for-demo $@

# what the demo needs and no more, which is part of the above
.venv/ready-for-demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing deadhead and what its demo needs into .venv; torch is the large one"
	$(INSTALL) -e '.[report]'
	touch $@

demo: .venv/ready-for-demo
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
