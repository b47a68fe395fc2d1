#!/bin/bash
# What a run's own step could not do because it was killed: stops its containers, saves the transcript so far,
# puts the workspace back, removes containers and volumes. A run that ended by itself left nothing to do.
set +e -u

cd "${BASH_SOURCE[0]%/*}" || exit 1
# shellcheck source=action/docker.sh
. ./docker.sh

main() {
    local socket client number docker=() left image
    find_engine >/dev/null || exit 0
    mapfile -t left < <(engine ps --all --quiet --filter "label=airlock.run=$AIRLOCK_RUN")
    [ ${#left[@]} -gt 0 ] || exit 0
    engine kill "${left[@]}" >/dev/null 2>&1
    if image=$(engine inspect --format '{{.Image}}' "$AIRLOCK_RUN" 2>/dev/null); then
        engine cp "$AIRLOCK_RUN:$AIRLOCK_RESULTS/." "$AIRLOCK_RESULTS" >/dev/null 2>&1
        # the journal of what was changed lies in the container's state volume, and the image has the code
        engine run --rm --volumes-from "$AIRLOCK_RUN" --label "airlock.run=$AIRLOCK_RUN" --network none \
            --pull never --log-driver none --read-only --cap-drop ALL --cap-add CHOWN --cap-add DAC_OVERRIDE \
            --security-opt no-new-privileges "$image" --undo
    fi
    engine rm --force --volumes "${left[@]}" >/dev/null
}

main
