#!/bin/bash
# Removes what a run left behind, by its label: containers with their volumes. A run whose own step ended by
# itself left none.
set +e -u

cd "${BASH_SOURCE[0]%/*}" || exit 1
# shellcheck source=action/docker.sh
. ./docker.sh

main() {
    local socket docker=() left
    find_engine >/dev/null || exit 0
    mapfile -t left < <(engine ps --all --quiet --filter "label=airlock.run=$AIRLOCK_RUN")
    [ ${#left[@]} -gt 0 ] || exit 0
    engine rm --force --volumes "${left[@]}" >/dev/null
}

main
