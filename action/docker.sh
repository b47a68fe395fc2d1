# shellcheck shell=bash
# The engine, for run.sh and remove.sh (sourced): found and spoken to in a way that nothing the job set can bend.

# A Docker client with nothing of the job's environment: no proxy or context of a client configuration ends up in
# a container, no DOCKER_HOST of another step's daemon gets the secrets, no LD_PRELOAD is loaded.
engine() { "${docker[@]}" "$@"; }

# Sets `docker` (how the client is called) and `socket`, or says what can be done without an engine and returns 1.
find_engine() {
    local client
    client=$(type -P docker) || {
        no_engine "there is no docker client on this runner's PATH"
        return 1
    }
    socket=/var/run/docker.sock
    # a rootless engine listens elsewhere; a remote one could mount none of this runner's folders
    if [[ ${DOCKER_HOST-} == unix:///* && -S ${DOCKER_HOST#unix://} ]]; then socket=${DOCKER_HOST#unix://}; fi
    docker=(env -i "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "HOME=${HOME-/}"
        "$client" --host "unix://$socket")
    local words
    words=$(engine version --format '{{.Server.Version}}' 2>&1 >/dev/null) && return 0
    no_engine "the Docker engine does not answer (${words//[$'\r\n']/ })"
    return 1
}

no_engine() {
    printf '::error title=Airlock::%s\n' "Airlock runs in a container, and $1. Use a runner with Docker, or run the \
image as a container action (\`uses: docker://…\`, also on Kubernetes), where commands are confined without Docker."
}
