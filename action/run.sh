#!/bin/bash
# The action's one step: start Airlock's container, hand it inputs and event on standard input, pass on cancels,
# fetch what it made, remove it. Everything that decides lies in the image; this only carries.
#
# House rules: secrets are handled by builtins of bash alone (no argument, no environment of a child, no file);
# mounts and capabilities are an explicit list; whatever happens to this shell, containers carry the label by
# which the next step removes them.
set +e -u

cd "${BASH_SOURCE[0]%/*}" || exit 1
# shellcheck source=action/docker.sh
. ./docker.sh

# What the broker may learn, by name; agent/contract/inputs.py sorts it, and a test compares the lists.
inputs=(MODE TASK MODEL API_KEY BASE_URL GITHUB_TOKEN PUSH_TOKEN SECRETS CONFIG SANDBOX SANDBOX_IMAGE IMAGE
    MAX_TOOL_CALLS TIMEOUT_MINUTES MAX_TOKENS MAX_COST TRIGGER OUTSIDERS ALLOW_BOTS RUN_ID DRY_RUN CA_CERTIFICATES
    UPLOAD_TRANSCRIPT)
facts=(GITHUB_ACTION GITHUB_ACTION_REF GITHUB_ACTION_REPOSITORY GITHUB_ACTIONS GITHUB_ACTOR GITHUB_ACTOR_ID
    GITHUB_API_URL GITHUB_BASE_REF GITHUB_EVENT_NAME GITHUB_EVENT_PATH GITHUB_GRAPHQL_URL GITHUB_HEAD_REF GITHUB_JOB
    GITHUB_REF GITHUB_REF_NAME GITHUB_REF_PROTECTED GITHUB_REF_TYPE GITHUB_REPOSITORY GITHUB_REPOSITORY_ID
    GITHUB_REPOSITORY_OWNER GITHUB_RUN_ATTEMPT GITHUB_RUN_ID GITHUB_RUN_NUMBER GITHUB_SERVER_URL GITHUB_SHA
    GITHUB_TRIGGERING_ACTOR GITHUB_WORKFLOW GITHUB_WORKFLOW_REF GITHUB_WORKFLOW_SHA GITHUB_WORKSPACE RUNNER_ARCH
    RUNNER_DEBUG RUNNER_ENVIRONMENT RUNNER_NAME RUNNER_OS RUNNER_TEMP RUNNER_TOOL_CACHE HTTP_PROXY HTTPS_PROXY
    NO_PROXY http_proxy https_proxy no_proxy)

CANCELLED=6 # exit status of a cancelled run; the table is agent/contract/outcomes.py

# Airlock's own variables, set below and sent with the others.
AIRLOCK_RESULTS='' AIRLOCK_TOOL_PATH=''
own=(AIRLOCK_RESULTS AIRLOCK_TOOL_PATH)

main() {
    # children of this shell (docker, env) get no input: a secret in their environment is in /proc
    export -n "${inputs[@]/#/INPUT_}"
    local cancelled='' child='' started='' socket client number docker=()
    trap 'cancel INT' INT
    trap 'cancel TERM' TERM
    find_engine || finish_without 'no engine'
    : "${GITHUB_WORKSPACE:?}" "${GITHUB_OUTPUT:?}" "${GITHUB_EVENT_PATH:?}"

    local run="airlock-${GITHUB_RUN_ID:-0}-${GITHUB_RUN_ATTEMPT:-1}-$SRANDOM"
    AIRLOCK_RESULTS=${RUNNER_TEMP:-/tmp}/$run
    mkdir -p "$AIRLOCK_RESULTS" || finish_without "no folder $AIRLOCK_RESULTS"
    # first of all, so that the next steps know even if this one is killed
    printf '%s=%s\n' airlock-run "$run" airlock-results "$AIRLOCK_RESULTS" >>"$GITHUB_OUTPUT"

    local image='' mounts=() places=()
    find_image || finish_without 'no image'
    find_mounts || finish_without 'no workspace'
    [ -z "$cancelled" ] || finish_without 'cancelled'
    start_and_wait
    local status=$?
    collect "$run" "$status"
    engine rm -fv "$run" >/dev/null 2>&1
    exit "$status"
}

# Inputs and facts as NAME=VALUE, each ended by NUL, one more NUL, then the event.
feed() {
    local name
    for name in "${inputs[@]/#/INPUT_}" "${facts[@]}" "${own[@]}"; do
        printf '%s=%s\0' "$name" "${!name-}"
    done
    printf '\0%s' "$(<"$GITHUB_EVENT_PATH")"
}

# Sets `image`: the one asked for, the released one, or one built here from the bundled Dockerfile.
find_image() {
    local released
    released=$(<released-image)
    image=${INPUT_IMAGE:-$released}
    if [ -n "$image" ]; then
        engine image inspect "$image" >/dev/null 2>&1 && return
        in_background pull && return
        if [ -n "${INPUT_IMAGE-}" ]; then
            echo "::error title=Airlock::The image that input \`image\` names cannot be pulled."
            return 1
        fi
        [ -z "$cancelled" ] || return 1
        echo "The released image cannot be pulled; building it from the action's own Dockerfile."
    fi
    echo "::group::Build Airlock's image"
    image=airlock:local
    in_background build
    local status=$?
    echo "::endgroup::"
    [ $status -eq 0 ] && return
    [ -n "$cancelled" ] || echo "::error title=Airlock::The image could not be built. Name one by input \`image\`."
    return 1
}

# Pulls `image`, with the logins that the client's user has.
# shellcheck disable=SC2329  # in_background calls it
pull() {
    exec env -i "PATH=$SYSTEM_PATH" "HOME=${HOME-/}" "DOCKER_CONFIG=${DOCKER_CONFIG-}" "$client" \
        --host "unix://$socket" pull --quiet "$image"
}

# Builds `image`. The one thing of the job's environment that a build gets is how to reach the network.
# shellcheck disable=SC2329  # in_background calls it
build() {
    local name proxies=(HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy) without=() given=()
    while IFS= read -r -d '' name; do # as it came: bash lists no names that are none of its own, such as functions
        name=${name%%=*}
        [[ " ${proxies[*]} HOME " == *" $name "* ]] || without+=(-u "$name")
    done </proc/self/environ
    for name in "${proxies[@]}"; do # by name: a proxy's password is in no argument
        [ -z "${!name-}" ] || given+=(--build-arg "$name")
    done
    exec env "${without[@]}" "PATH=$SYSTEM_PATH" "$client" --host "unix://$socket" build "${given[@]}" \
        --tag "$image" ..
}

# Sets `mounts`: everything of this runner that the container sees.
find_mounts() {
    local workspace=$GITHUB_WORKSPACE place
    volume /var/lib/airlock
    volume "$AIRLOCK_RESULTS"
    find_places
    bind "$workspace" || {
        echo "::error title=Airlock::The workspace $workspace lies in no folder of the runner that is mounted into \
the job's container, so the Docker engine cannot mount it again. Run this step in a job without \`container:\`."
        return 1
    }
    # The real git folder apart, for the broker alone, and a volume over it, which gets a throwaway one.
    if [ ! -L "$workspace/.git" ]; then
        if [ -d "$workspace/.git" ]; then
            bind "$workspace/.git" /airlock-git ,readonly &&
                volume "$workspace/.git"
        elif [ -f "$workspace/.git" ]; then
            # A linked worktree: the file stays, the repository it names is needed at its own path.
            read -r place <"$workspace/.git"
            place=${place#gitdir: }
            [[ $place == /* ]] || place=$workspace/$place
            if [ -f "$place/commondir" ]; then place=$place/$(<"$place/commondir"); fi
            place=$(cd "$place" 2>/dev/null && pwd -P) && [[ $place/ != "$workspace"/* ]] && bind "$place"
        fi
    fi
    if [ -d "${RUNNER_TOOL_CACHE:-/nowhere}" ]; then
        bind "$RUNNER_TOOL_CACHE" "$RUNNER_TOOL_CACHE" ,readonly
        local entry entries
        IFS=: read -r -a entries <<<"${PATH-}"
        for entry in "${entries[@]}"; do # what earlier setup-* steps put on PATH, and nothing else
            [[ $entry == "$RUNNER_TOOL_CACHE"/* ]] && AIRLOCK_TOOL_PATH+=${AIRLOCK_TOOL_PATH:+:}$entry
        done
    fi
    place=${INPUT_CA_CERTIFICATES-}
    if [[ $place == /* && -f $place && $place != "$workspace"/* ]]; then bind "$place" "$place" ,readonly; fi
    # To start the sandbox's container beside ours. Only the first process can use it; see agent/launch.py.
    [ "${INPUT_SANDBOX-}" = process ] || bind "$socket" /var/run/docker.sock
    return 0
}

# bind PATH [TARGET [OPTIONS]]: mount one of this runner's paths. Inside a container (a job's `container:`) the
# engine knows the path by another name, that of the mount which holds it; where none does, it returns 1.
bind() {
    local path=$1 target=${2:-$1} options=${3-} line kind source at best='' found=''
    if [ ${#places[@]} -eq 0 ]; then
        mount bind "$path" "$target" "$options"
        return
    fi
    for line in "${places[@]}"; do
        IFS='|' read -r kind source at <<<"$line"
        if [[ $path/ == "$at"/* && ${#at} -ge ${#best} ]]; then
            best=$at found="$kind|$source"
        fi
    done
    [ -n "$best" ] || return 1
    IFS='|' read -r kind source <<<"$found"
    if [ "$kind" = bind ]; then
        mount bind "$source${path#"$best"}" "$target" "$options"
    else # a volume can be mounted whole, and no folder of it
        [ "$path" = "$best" ] && mount volume "$source" "$target" "$options"
    fi
}

# A volume of this run alone, removed with its container; the label is for one that a crash of the engine leaves.
volume() { mounts+=(--mount "type=volume,\"dst=${1//\"/\"\"}\",volume-label=airlock.run=$run"); }

# One --mount; it is read as CSV, so a path may hold a comma.
mount() { mounts+=(--mount "type=$1,\"src=${2//\"/\"\"}\",\"dst=${3//\"/\"\"}\"$4"); }

# Sets `places`: where this shell runs in a container itself, that container's mounts as KIND|SOURCE|TARGET.
find_places() {
    places=()
    [ -n "$number" ] || return 0
    local line found
    found=$(engine inspect --format \
        '{{range .Mounts}}{{println (print .Type "|" (or .Name .Source) "|" .Destination)}}{{end}}' "$number" 2>/dev/null)
    while IFS= read -r line; do [ -z "$line" ] || places+=("$line"); done <<<"$found"
}

# Runs the container to its end; returns its exit status.
start_and_wait() {
    "${docker[@]}" run --interactive --name "$run" --label "airlock.run=$run" --pull never --log-driver none \
        --hostname airlock --read-only --cap-drop ALL --cap-add SETUID --cap-add SETGID --cap-add CHOWN \
        --cap-add DAC_OVERRIDE --cap-add KILL --security-opt no-new-privileges --pids-limit 8192 \
        --tmpfs /tmp:rw,nosuid,nodev,exec,mode=1777 "${mounts[@]}" "$image" --stdin < <(feed) &
    child=$! started=yes
    [ -z "$cancelled" ] || cancel "$cancelled" # a signal between the two lines above
    wait_for "$child"
}

# A child in the background, so that a trap runs while it does.
in_background() {
    [ -z "$cancelled" ] || return 1
    "$@" &
    child=$!
    [ -z "$cancelled" ] || cancel "$cancelled"
    wait_for "$child"
}

# An interrupted `wait` returns early; the child's end is what counts.
wait_for() {
    local status
    while :; do
        wait "$1"
        status=$?
        kill -0 "$1" 2>/dev/null || return $status
    done
}

# The runner signals this shell alone, so the container learns of it here; a pull or build just ends.
# shellcheck disable=SC2329  # the traps call it
cancel() {
    cancelled=$1
    if [ -n "$started" ]; then
        for _ in {1..20}; do # the engine may be making the container just now
            engine kill --signal "$1" "$run" >/dev/null 2>&1 && return
            kill -0 "$child" 2>/dev/null || return
            sleep 0.1
        done
    fi
    [ -z "$child" ] || kill -s TERM "$child" 2>/dev/null
}

# Results out of the container's volume, into the runner's files.
collect() {
    engine cp "$1:$AIRLOCK_RESULTS/." "$AIRLOCK_RESULTS" >/dev/null 2>&1
    if [ -s "$AIRLOCK_RESULTS/outputs" ]; then
        cat -- "$AIRLOCK_RESULTS/outputs" >>"$GITHUB_OUTPUT"
    else
        no_report
        [ "$2" -eq 0 ] || echo "::error title=Airlock::The container ended with status $2 and left no report."
    fi
    if [ -s "$AIRLOCK_RESULTS/summary.md" ] && [ -n "${GITHUB_STEP_SUMMARY-}" ]; then
        cat -- "$AIRLOCK_RESULTS/summary.md" >>"$GITHUB_STEP_SUMMARY"
    fi
}

# What a following step reads where the broker could write nothing.
no_report() {
    local why=error
    [ -z "$cancelled" ] || why=cancelled
    printf '%s\n' "outcome=$why" "stop-reason=$why" >>"$GITHUB_OUTPUT"
}

finish_without() {
    no_report
    echo "Airlock did not run: $1."
    [ -z "$cancelled" ] || exit "$CANCELLED"
    exit 1
}

main
