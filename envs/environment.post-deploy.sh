#!/usr/bin/env bash
# Run by Snakemake in the new environment, and by hand after `conda env create`, from the project's folder.
set -euo pipefail
python -m pip install -r envs/requirements.txt
python -m pip install --no-deps -e .
