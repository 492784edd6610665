#!/usr/bin/env bash
# Install the lock run.txt into the active conda environment. Run by Snakemake, which copies this file elsewhere first,
# and by hand after `conda env create`, from any folder.
set -euo pipefail

from=("$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)" "$PWD")
for folder in "${from[@]}"; do
    while [ ! -f "$folder/envs/install.py" ] && [ "$folder" != / ]; do
        folder=$(dirname "$folder")
    done
    if [ -f "$folder/envs/install.py" ]; then
        exec python "$folder/envs/install.py" run --here --torch "${TORCH:-auto}"
    fi
done
echo "environment.post-deploy.sh: no envs/install.py above ${from[*]}; run it from the project's folder" >&2
exit 1
