# Airlock's image: the action's own container, and the default image of its sandboxes.
# Builds with the classic builder and with BuildKit alike (no RUN --mount, no here-documents).
ARG BASE=debian:trixie-slim

# What is only needed to build: pip, a compiler. Nothing of it reaches the image.
FROM ${BASE} AS build
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates gcc libc6-dev python3 python3-pip \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY requirements/runtime.lock requirements/runtime.lock
# Every file is checked against a hash of the lock; wheels alone, so no package's code runs here. Bytecode is never
# checked against its source: both are part of the image, and nobody may write them. Whoever the sandbox and harness
# run as must be able to read the code, so modes do not depend on the checkout.
RUN python3 -I -m pip install --quiet --no-cache-dir --no-compile --disable-pip-version-check \
    --require-hashes --only-binary=:all: --target /build/packages -r requirements/runtime.lock \
 && rm -rf /build/packages/bin \
 && python3 -I -m compileall -q -j 0 --invalidation-mode unchecked-hash \
    -s /build/packages -p /usr/local/lib/python3/dist-packages /build/packages \
 && find /build/packages -type d -exec chmod 0755 {} + \
 && find /build/packages -type f -exec chmod 0644 {} +
COPY agent/sandbox/helper.c helper.c
RUN gcc -O2 -Wall -Werror -static -s -o helper helper.c
COPY entrypoint.py /airlock/entrypoint.py
COPY agent /airlock/agent
RUN python3 -I -m compileall -q -j 0 --invalidation-mode unchecked-hash /airlock \
 && find /airlock -type d -exec chmod 0755 {} + \
 && find /airlock -type f -exec chmod 0644 {} +

FROM ${BASE}
# The libraries are those that the runner's tool caches (setup-python, -node, -go, -java, -ruby) were linked with.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends bash ca-certificates git python3 \
    libatomic1 libbz2-1.0 libexpat1 libffi8 libgdbm6t64 liblzma5 libncursesw6 libreadline8t64 libsqlite3-0 \
    libssl3t64 libstdc++6 libuuid1 libyaml-0-2 zlib1g \
 && apt-get clean && rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log
COPY --from=build /build/packages /usr/local/lib/python3/dist-packages
COPY --from=build /build/helper /usr/local/lib/airlock/helper
COPY --from=build /airlock /airlock
# one folder for all packages, whatever minor version of Python the base brings; `python3 -I` reads it
RUN site="$(python3 -I -c 'import site; print(site.getsitepackages()[0])')" \
 && mkdir -p "$site" \
 && echo /usr/local/lib/python3/dist-packages > "$site/airlock-packages.pth" \
 && chmod 0755 /usr/local/lib/airlock /usr/local/lib/airlock/helper \
 && python3 -I -c 'import requests, jsonschema, re2, yaml, docker'
# The first process must be root: it gives workspaces back to their owners and starts the other zones as theirs.
ENTRYPOINT ["python3", "-I", "-B", "/airlock/entrypoint.py"]
