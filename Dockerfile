# Stages:  run, the pipeline (default);  translate, the use of models: nmt translate, score, serve.
#
#   docker build -t nmt --build-arg COMMIT=$(git describe --always --abbrev=12 --dirty=+changes) .   on the CPU
#   docker build -t nmt:cuda --build-arg TORCH=cu130 .           with CUDA 13; cu126 for older GPUs and drivers
#   docker build -t nmt-translate --target translate .           the use of models alone, about 1 GB
#   docker run --rm -it -v "$PWD/results:/home/nmt/project/results" nmt
#   docker run --rm -i -v /models:/models:ro nmt-translate translate /models/mine < text.txt
#   docker run --rm -p 8000:8000 -v /models:/models:ro nmt-translate serve /models/mine --host 0.0.0.0 --token "$TOKEN"
#
# Another base, such as one of your own registry: --build-arg BASE=registry.example/python:3.11. It needs Python 3.11 to
# 3.14 with venv. CUDA comes with PyTorch's wheels; the host needs NVIDIA's driver and container toolkit (--gpus all).
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS source
WORKDIR /home/nmt/project
COPY envs envs
COPY nmt nmt
COPY pyproject.toml setup.py README.md LICENSE ./
ARG COMMIT=
RUN if [ -n "$COMMIT" ]; then echo "$COMMIT" > nmt/system/platforms/commit.txt; fi
ENV PIP_NO_CACHE_DIR=1

FROM source AS build-run
ARG TORCH=cpu
ARG EXTRAS=
RUN python3 envs/install.py run $EXTRAS --torch "$TORCH" --venv /opt/nmt

FROM source AS build-translate
ARG TORCH=cpu
RUN python3 envs/install.py train --torch "$TORCH" --venv /opt/nmt \
    && /opt/nmt/bin/pip uninstall --quiet --yes setuptools pip \
    && rm -rf /opt/nmt/lib/python3*/site-packages/torch/include

FROM ${BASE} AS translate
RUN useradd --create-home --uid 1000 nmt
COPY --from=build-translate /opt/nmt /opt/nmt
COPY --from=build-translate /home/nmt/project /home/nmt/project
ENV PATH=/opt/nmt/bin:$PATH
USER nmt
WORKDIR /home/nmt
EXPOSE 8000
ENTRYPOINT ["nmt"]
CMD ["--help"]

FROM ${BASE} AS run
RUN useradd --create-home --uid 1000 nmt && mkdir -p /home/nmt/project && chown nmt /home/nmt/project
COPY --from=build-run /opt/nmt /opt/nmt
COPY --chown=nmt . /home/nmt/project
COPY --from=build-run --chown=nmt /home/nmt/project/nmt/system/platforms /home/nmt/project/nmt/system/platforms
ENV PATH=/opt/nmt/bin:$PATH MLFLOW_DISABLE_TELEMETRY=true
USER nmt
WORKDIR /home/nmt/project
CMD ["snakemake", "--cores", "all"]
