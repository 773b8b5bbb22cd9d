# The wheel is built in a stage of its own: neither sources nor build tools are in what runs.
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY docs/proofs docs/proofs
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
RUN useradd --create-home --uid 1000 dpsu
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir /wheels/*.whl
# Compiled loops are kept in the home of whoever runs them: nothing else is theirs to write.
USER dpsu
WORKDIR /home/dpsu
# For processors like the one that builds this; on others they are compiled when they are needed.
RUN dpsu warm-up
# Without a command it shows what it does on made-up data. For data of your own:
#   docker run --rm --volume "$PWD:/data:ro" IMAGE dpsu release /data/visits.csv ... > items.txt
CMD ["dpsu", "demo"]
