# Every target first makes .venv from a lock of envs/, if it is missing or the lock has changed.
# Another Python: make run PYTHON=python3.12    Options for Snakemake: make run ARGS="--config device=cpu"
# PyTorch's build: make run TORCH=cpu (or cu126, cu130, pypi); without it, what the machine needs: nmt doctor

PYTHON ?= python3
RESULTS ?= results
PORT ?= 5000
ARGS ?=
BENCH ?=
BIN := .venv/bin
ifdef TORCH
CHOSEN := .venv/.torch-$(TORCH)
endif
RUN := .venv/.run $(CHOSEN)
DEV := .venv/.dev $(CHOSEN)
PYTEST = $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

export MLFLOW_DISABLE_TELEMETRY := true
export NO_MKDOCS_2_WARNING := true
unexport PYTHONDONTWRITEBYTECODE  # otherwise each process compiles the project and the tests again

.PHONY: help install run test-fast test test-long lint format bench bench-peers ui report overview schemas reference \
	docs lock clean-env clean-results

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##/  make \1\t/p' Makefile

install: $(RUN)  ## make .venv from the lock envs/run.txt

run: $(RUN)  ## build the tables that config.yaml lists
	$(BIN)/snakemake --cores all $(ARGS)

test-fast: $(DEV)  ## run the fast unit tests, which start no processes: a minute on two cores
	$(PYTEST) -m "not integration and not long" $(ARGS)

test: $(DEV)  ## run all tests but the slow ones: about 8 minutes on two cores
	$(PYTEST) -m "not long" $(ARGS)

test-long: $(DEV)  ## run the slow tests too: SLURM (NMT_SLURM: docs/how-to/slurm.md), kill campaigns, the pages' commands
	$(BIN)/python -m pytest -m long --timeout=1800 $(ARGS)
	$(BIN)/python -m benchmarks.faults
	$(BIN)/python -m benchmarks.kills
	$(BIN)/python -m benchmarks.hostile

lint: $(DEV)  ## check style, types and the workflow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

format: $(DEV)  ## write everything in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow

bench: $(DEV)  ## measure speed, after make run, into benchmarks/archive; one: make bench BENCH=training ARGS="--rounds 5"
	$(BIN)/python -m benchmarks $(BENCH) $(ARGS)

bench-peers: $(DEV)  ## install other toolkits below .peers, then measure with them
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks $(BENCH) $(ARGS)

ui: $(RUN) .venv/.ui  ## open the MLflow page on the runs so far
	@test -f $(RESULTS)/tracking.json || { echo "$(RESULTS)/tracking.json: no runs yet; first: make run"; exit 1; }
	@uri=$$($(BIN)/python -c 'import json; print(json.load(open("$(RESULTS)/tracking.json"))["uri"])') && \
	case "$$uri" in \
	http*) echo "The runs are on the server $$uri" ;; \
	*) echo "http://127.0.0.1:$(PORT)/#/experiments?workflowType=machine_learning" && \
	$(BIN)/mlflow ui --host 127.0.0.1 --port $(PORT) --backend-store-uri "$$uri" ;; \
	esac

report: $(RUN)  ## write report.html: all tables and figures on one page
	$(BIN)/nmt page $(RESULTS) report.html

overview: $(RUN)  ## write the overview of all tables into results/README.md
	$(BIN)/nmt overview $(RESULTS) $(RESULTS)/README.md

schemas: $(RUN)  ## write workflow/schemas from the configuration's models
	$(BIN)/nmt schemas workflow/schemas

reference: $(DEV)  ## write docs/reference/configuration.md and commands.md from the code
	$(BIN)/python docs/generate.py

docs: $(DEV)  ## build the documentation as a site: site/index.html
	$(BIN)/mkdocs build --strict --quiet

lock:  ## write the locks below envs/ from pyproject.toml; needs uv
	$(PYTHON) envs/compile.py $(ARGS)

clean-env:  ## delete .venv
	rm -rf .venv

clean-results:  ## delete what runs wrote, trainings included; committed tables and figures stay
	git clean -fdX $(RESULTS)

.venv/.torch-%:
	$(PYTHON) envs/install.py train --torch $*

.venv/.%: envs/%.txt envs/install.py pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON) here; name a Python 3.11 to 3.14: make run PYTHON=..."; exit 1; }
	$(PYTHON) envs/install.py $* --torch $(or $(TORCH),auto)
