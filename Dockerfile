# The wheel is built in a stage of its own: neither sources nor the compiler are in what runs.
FROM python:3.13 AS build
WORKDIR /source
COPY pyproject.toml setup.py README.md LICENSE ./
COPY tools/build_backend.py tools/
COPY docs/proofs docs/proofs
COPY docs/guides docs/guides
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
RUN useradd --create-home --uid 1000 dpsu
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-compile /wheels/*.whl
USER dpsu
WORKDIR /home/dpsu
# Without a command it shows what it does on made-up data. For data of your own:
#   docker run --rm --volume "$PWD:/data:ro" IMAGE dpsu release /data/visits.csv ... > items.txt
CMD ["dpsu", "demo"]
