# Two commands do everything on a machine with Python 3.11 or newer, gcc and make:
#   make demo      create .venv, install what is pinned, show a constellation and train on it
#   make test      the same with the test tools, then ruff, mypy and pytest
# And for those who work on it:
#   make bench     measure speed and memory as in docs/performance.md; best on an idle machine
#   make bench-ray what training on a Ray cluster costs, on one node and on two
#   make fuzz      damaged and hostile inputs for some minutes, see docs/reliability.md; MINUTES=5 SEED=0
#   make chaos     runs and studies that are killed and resumed; KILLS=100 SEED=0
#   make docs      build the documentation in build/site; with search: python3 -m http.server -d build/site
#   make results   build pages, tables and figures of the committed results in build/results, from their records
#   make figures   the same, and draw the pictures of the README and of pages of results again
#   make screenshots  train a small run, and take the screenshots of the documentation again
#   make lock      write constraints.txt and requirements/ anew from the newest releases
#   make wheels    write dist/ as it is released; in the manylinux_2_28 container for PyPI
#   make clean     remove .venv and everything that was built
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check

.PHONY: help demo test bench bench-ray fuzz chaos docs results figures screenshots lock wheels clean

help:
	@sed -n 's/^#   //p' Makefile

.venv/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fedorbit needs Python 3.11 or newer, $(PYTHON) is older; try: make PYTHON=python3.11" >&2; exit 2; }
	$(PYTHON) -m venv .venv

# The stamps are the reason why a second `make demo` installs nothing.
# PyTorch is pinned by its version alone, since it comes in several builds: docs/decisions/012-supply-chain.md.
.venv/installed: .venv/pyvenv.cfg pyproject.toml constraints.txt requirements/run.txt setup.py $(wildcard src/fedorbit/learning/kernel/*.[ch])
	$(PIP_INSTALL) --require-hashes -r requirements/run.txt
	$(PIP_INSTALL) --constraint constraints.txt torch
	$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/installed-test: .venv/installed requirements/test.txt
	$(PIP_INSTALL) --require-hashes -r requirements/test.txt
	@touch $@

demo: .venv/installed
	rm -rf demo
	$(BIN)/fedorbit orbits --contacts 0 --out demo/orbits
	$(BIN)/fedorbit data partition quickstart --out demo/partition
	$(BIN)/fedorbit run --out demo/run
	$(BIN)/fedorbit report demo/run --out demo/report.html
	@echo "Now open demo/report.html in a browser."

test: .venv/installed-test
	sh scripts/install-chromium.sh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n auto

# The last one takes a quarter of an hour; it makes an environment for Flower in fedorbit's cache folder.
bench: .venv/installed
	$(BIN)/fedorbit doctor
	$(BIN)/python benchmarks/start_up.py
	$(BIN)/python benchmarks/kernel_speed.py
	$(BIN)/python benchmarks/per_method.py
	$(BIN)/python benchmarks/engine_choice.py kernel
	$(BIN)/python benchmarks/loop_overhead.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/orbits_scale.py
	$(BIN)/python benchmarks/links_scale.py
	$(BIN)/python benchmarks/against_flower.py --method fedavg --repeats 3
	$(BIN)/python benchmarks/against_flower.py --method fedorbit --repeats 1

bench-ray: .venv/installed
	$(PIP_INSTALL) --require-hashes -r requirements/ray.txt
	$(BIN)/python benchmarks/ray_overhead.py

# Failures are kept, with the commands that repeat them, in build/fuzz and build/chaos.
fuzz chaos: SEED ?= 0
fuzz: MINUTES ?= 5
fuzz: .venv/installed
	$(BIN)/python robustness/fuzz.py --minutes $(MINUTES) --seed $(SEED)

chaos: KILLS ?= 100
chaos: .venv/installed
	$(BIN)/python robustness/chaos.py --kills $(KILLS) --seed $(SEED)

docs: .venv/installed
	$(PIP_INSTALL) --require-hashes -r requirements/docs.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# No training and no dataset: the records are enough. Fails if a committed table is not that of the records.
results: .venv/installed
	$(BIN)/python scripts/build_results.py

# The pictures of the README and of pages of results, from committed results.
figures: .venv/installed
	$(BIN)/python scripts/build_results.py --pictures
	$(BIN)/python scripts/readme_figure.py

# In Chromium, of small runs in the folder for temporary files.
screenshots: .venv/installed-test
	sh scripts/install-chromium.sh
	$(BIN)/python scripts/screenshots.py

# Writes constraints.txt anew from the newest releases that pyproject.toml admits, and requirements/ with their hashes.
lock:
	PYTHON=$(PYTHON) sh scripts/lock.sh
	PYTHON=$(PYTHON) sh scripts/hashes.sh

wheels:
	PYTHON=$(PYTHON) sh scripts/wheels.sh

clean:
	rm -rf .venv demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
