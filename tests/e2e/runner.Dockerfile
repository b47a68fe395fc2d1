# Plays a hosted runner for act: what a runner's machine has that the action may count on.
FROM debian:trixie-slim
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends bash ca-certificates docker-buildx docker-cli git nodejs \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
CMD ["bash"]
