# shellcheck shell=bash
# The engine, for run.sh and remove.sh (sourced): found and spoken to in a way that nothing the job set can bend.

# A library that the job preloads is for the job's programs; the few that are started here get none.
unset LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT

SYSTEM_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
SYSTEM_SOCKET=/var/run/docker.sock

# A Docker client with nothing of the job's environment and no configuration of its user: proxies of one, a password
# among them, would be set in the container's environment; no DOCKER_HOST of another step's daemon gets the secrets.
# In the background write `"${docker[@]}"` instead, so that the child is the client itself and a signal reaches it.
engine() { "${docker[@]}" "$@"; }

# Sets `docker` (how the client is called), `client` and `socket`, or says what can be done without an engine and
# returns 1.
find_engine() {
    own_container
    client=$(type -P docker) || {
        if [ -n "$number" ]; then
            no_engine "this job's container has no docker client on its PATH (its image can bring one)"
        else
            no_engine "there is no docker client on this runner's PATH"
        fi
        return 1
    }
    find_socket || {
        no_engine "the Docker engine that this job names (${DOCKER_HOST-}) is on another machine, which can mount \
nothing of this runner"
        return 1
    }
    docker=(env -i "PATH=$SYSTEM_PATH" "$client" --host "unix://$socket" --config "$PWD/no-configuration")
    local words
    words=$(engine version --format '{{.Server.Version}}' 2>&1 >/dev/null) && return 0
    no_engine "the Docker engine does not answer (${words//[$'\r\n']/ })"
    return 1
}

# Sets `socket`: where this machine's engine listens; a rootless one does so elsewhere than the system's. Returns 1
# where only a remote engine is named.
find_socket() {
    local named
    for named in "${DOCKER_HOST-}" "unix://$SYSTEM_SOCKET" "unix://${XDG_RUNTIME_DIR:-/nowhere}/docker.sock"; do
        socket=${named#unix://}
        [[ $named == unix:///* && -S $socket && -w $socket ]] && return 0
    done
    socket=$SYSTEM_SOCKET
    [[ ${DOCKER_HOST-} != *://* || $DOCKER_HOST == unix://* ]]
}

# Sets `number`: the id of the container that this shell runs in (a job's `container:`), or nothing.
own_container() {
    local line
    number=''
    while read -r line; do
        [[ $line =~ /([0-9a-f]{64})/hostname\ /etc/hostname\  ]] && number=${BASH_REMATCH[1]}
    done </proc/self/mountinfo
}

no_engine() {
    printf '::error title=Airlock::%s\n' "Airlock runs in a container, and $1. Use a runner with Docker, or run the \
image as a container action (\`uses: docker://…\`, also on Kubernetes), where commands are confined without Docker."
}
