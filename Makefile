# Two commands do all the set-up: `make demo` (the main job) and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# pytest-xdist's workers each take one core; BLAS must not start more threads than that.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: demo test test-all lint bench docs pictures clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[data,viz,train,serve,docs,dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py --out out/demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

test: $(STAMP)
	$(PYTEST) -m "not slow"

test-all: test
	$(PYTEST) -m "slow"

bench: $(STAMP)
	$(BIN)/python benchmarks/features.py --json out/features.json
	$(BIN)/python benchmarks/model.py --json out/model.json
	$(BIN)/python benchmarks/end_to_end.py --json out/end_to_end.json

# The site, with warnings as errors. It opens as site/index.html; searching wants a server:
# python -m http.server -d site
docs: $(STAMP)
	$(BIN)/mkdocs build --strict

# What the pages show and list is made, not drawn: pictures, map of the code, settings.
pictures: demo
	cp out/demo/flow.png docs/images/flow.png
	$(BIN)/python docs/make_pictures.py
	$(BIN)/python docs/make_map.py
	$(BIN)/python docs/make_settings.py

clean:
	rm -rf $(VENV) out site
