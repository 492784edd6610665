# Every target first makes .venv from the lock, envs/requirements.txt, if it is missing or the lock has changed.
# Another Python: make run PYTHON=python3.12    Options for Snakemake: make run ARGS="--config device=cpu"

PYTHON ?= python3
RESULTS ?= results
PORT ?= 5000
ARGS ?=
BENCH ?=
BIN := .venv/bin
READY := .venv/.ready
PYTEST = $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

export MLFLOW_DISABLE_TELEMETRY := true
export NO_MKDOCS_2_WARNING := true

.PHONY: help install run test-fast test test-long lint format bench bench-peers ui report overview schemas reference \
	docs clean-env clean-results

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##/  make \1\t/p' Makefile

install: $(READY)  ## make .venv from the lock

run: $(READY)  ## build the tables that config.yaml lists
	$(BIN)/snakemake --cores all $(ARGS)

test-fast: $(READY)  ## run the unit tests, which start no processes: 100 seconds on two cores
	$(PYTEST) -m "not integration and not long" $(ARGS)

test: $(READY)  ## run all tests but the slow ones: under 8 minutes on two cores
	$(PYTEST) -m "not long" $(ARGS)

test-long: $(READY)  ## run the slow tests too: SLURM (NMT_SLURM: docs/how-to/slurm.md), kill campaigns, the pages' commands
	$(BIN)/python -m pytest -m long --timeout=1800 $(ARGS)
	$(BIN)/python -m benchmarks.faults
	$(BIN)/python -m benchmarks.kills
	$(BIN)/python -m benchmarks.hostile

lint: $(READY)  ## check style, types and the workflow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

format: $(READY)  ## write everything in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow

bench: $(READY)  ## measure speed, after make run, into benchmarks/RESULTS.md; one: make bench BENCH=training ARGS="--rounds 5"
	$(BIN)/python -m benchmarks $(BENCH) $(ARGS)

bench-peers: $(READY)  ## install other toolkits below .peers, then measure with them
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks $(BENCH) $(ARGS)

ui: $(READY)  ## open the MLflow page on the runs so far
	@test -f $(RESULTS)/tracking.json || { echo "$(RESULTS)/tracking.json: no runs yet; first: make run"; exit 1; }
	@uri=$$($(BIN)/python -c 'import json; print(json.load(open("$(RESULTS)/tracking.json"))["uri"])') && \
	case "$$uri" in \
	http*) echo "The runs are on the server $$uri" ;; \
	*) $(BIN)/mlflow ui --host 127.0.0.1 --port $(PORT) --backend-store-uri "$$uri" ;; \
	esac

report: $(READY)  ## write report.html: all tables and figures on one page
	$(BIN)/nmt page $(RESULTS) report.html

overview: $(READY)  ## write the overview of all tables into results/README.md
	$(BIN)/nmt overview $(RESULTS) $(RESULTS)/README.md

schemas: $(READY)  ## write workflow/schemas from the configuration's models
	$(BIN)/nmt schemas workflow/schemas

reference: $(READY)  ## write docs/reference/configuration.md and commands.md from the code
	$(BIN)/python docs/generate.py

docs: $(READY)  ## build the documentation as a site: site/index.html
	$(BIN)/mkdocs build --strict --quiet

clean-env:  ## delete .venv
	rm -rf .venv

clean-results:  ## delete what runs wrote, trainings included; committed tables and figures stay
	git clean -fdX $(RESULTS)

$(READY): envs/requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	echo "Python 3.11 or newer is needed, got: $$($(PYTHON) --version 2>/dev/null || echo no $(PYTHON))"; \
	echo "Install one, and name it: make run PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -r envs/requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps -e .
	@touch $(READY)
