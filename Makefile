# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-deps
# every file that is installed has a hash in locks/, which tools/lock.py writes
LOCKED := $(PIP) --no-build-isolation --use-pep517 --require-hashes -r
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: setup demo test test-all check docs bench world clean

# everything for development
setup: .venv/ready

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "deadhead needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv

# each installed again whenever what is to be installed changes
.venv/ready: pyproject.toml locks/dev.txt .venv/ready-for-demo
	@echo "Installing all that the development of deadhead needs into .venv"
	$(LOCKED) locks/dev.txt
	$(BIN)/python -m pip check
	touch $@

# what the demo needs and no more, which is part of the above; a build of torch in a folder where pip is set to look comes
# before that of the registry, which needs gigabytes for CUDA
.venv/ready-for-demo: pyproject.toml locks/torch.txt locks/cuda.txt locks/demo.txt | $(BIN)/python
	@echo "Installing deadhead and what its demo needs into .venv; torch is the large one"
	@if $(PIP) --quiet --no-index --require-hashes -r locks/torch.txt 2>/dev/null; then echo "torch: taken from this machine"; \
	  elif $(PIP) --quiet --no-index -c constraints.txt torch 2>/dev/null; \
	  then echo "torch: a build on this machine, installed unchecked: its hash is not in locks/torch.txt"; \
	  else $(LOCKED) locks/torch.txt; fi
	@if $(BIN)/python -c 'from importlib.metadata import requires; exit("cuda-toolkit" not in str(requires("torch")))'; \
	  then $(LOCKED) locks/cuda.txt; fi
	$(LOCKED) locks/demo.txt
	$(PIP) --no-build-isolation -e .
	touch $@

demo: .venv/ready-for-demo
	$(BIN)/deadhead demo

# Three processes for two cores, since some tests wait for others. Each starts with a third of the tests, so that those
# of a file share what it sets up, and helps the others at the end.
PYTEST := $(BIN)/python -m pytest -n 3 --dist worksteal

# every feature at least once
test: setup
	$(PYTEST) -m "not slow and not whole"

# also the exports, runtimes, executors and pages that take long
test-all: setup
	$(PYTEST) -m "not whole"

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# the pages of docs/ as a site in ./site, with fresh lists of commands and recipes
docs: setup
	$(BIN)/python docs/make.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: setup
	$(BIN)/python benchmarks/heads.py

# writes the sentences of the small world and pre-trains its two tiny models again: minutes on a GPU, hours on two cores
world: setup
	$(BIN)/python tools/world/sentences.py
	$(BIN)/python tools/world/build.py

clean:
	rm -rf .venv build dist out site .pytest_cache .mypy_cache .ruff_cache .hypothesis
