"""Real tool chains where earlier setup-* steps leave them: commands of both backends find and can run them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.act import TOOLS
from tests.e2e.conftest import docker
from tests.e2e.job import composite
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import RUN_ID, World

CHAINS = TOOLS / "hostedtoolcache"  # node, go and java, laid out by .ci/docker-setup

pytestmark = pytest.mark.skipif(not CHAINS.is_dir(), reason="no tool chains (.ci/docker-setup)")

FILES = {
    ".gitignore": "__pycache__/\n.venv/\nnode_modules/\n",
    "package.json": '{"name": "w", "version": "1.0.0", "scripts": {"shout": "shout from a script"}}\n',
    "gomod/go.mod": "module example.com/w\n\ngo 1.27\n",
    "gomod/w.go": 'package main\n\nfunc main() {\n\tprintln("built", "offline")\n}\n',
}
SHOUT = "#!/usr/bin/env node\nconsole.log(process.argv.slice(2).join(' ').toUpperCase());\n"


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk
        shutil.copy2(source, target)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, image: str) -> Path:
    """A tool cache of four chains: Debian's Python, taken from the image, is relocatable as setup-python's is."""
    cache = tmp_path_factory.mktemp("runner") / "hostedtoolcache"
    shutil.copytree(CHAINS, cache, symlinks=True, copy_function=_link_or_copy)
    python = cache / "Python/3/x64"
    (python / "bin").mkdir(parents=True)
    (python / "lib").mkdir()
    container = docker("create", image)
    try:
        name = "python3.13"
        docker("cp", f"{container}:/usr/bin/{name}", f"{python}/bin/{name}")
        docker("cp", f"{container}:/usr/lib/{name}", f"{python}/lib/{name}")
    finally:
        docker("rm", container)
    return cache


COMMANDS = {
    "node --version && npm --version && command -v node": ["v24.19.0", "{cache}/node/24.19.0/x64/bin/node"],
    "node_modules/.bin/shout hi && npm run --silent shout": ["HI", "FROM A SCRIPT"],
    # no build: without its cache the whole runtime is compiled first, half a minute of processor
    "go version && cd gomod && gofmt -l . && go list -deps .": ["go1.27.3", "runtime", "example.com/w"],
    "java -XshowSettings:properties -version": ["java.home = {cache}/Java_Temurin-Hotspot_jdk/25.0.2.1/x64"],
    "python3.13 -m venv --without-pip .venv && .venv/bin/python -c 'import bz2, ctypes, lzma, readline, sqlite3, ssl, "
    "sys, zlib; print(sys.prefix, sys.base_prefix)'": ["{work}/.venv {cache}/Python/3/x64"],
}  # fmt: skip


@pytest.mark.parametrize("sandbox", ["container", "process"])
def test_the_tool_chains_of_setup_steps_work_without_a_network(
    make: Callable[..., World], cache: Path, gateway: str, sandbox: str
) -> None:
    """node, npm, go, java and Python from the cache; programs of `node_modules` and `.venv` in the workspace."""
    world = make(files=FILES)
    package = world.workspace / "node_modules/shout"
    (world.workspace / "node_modules/.bin").mkdir(parents=True)
    package.mkdir()
    (package / "cli.js").write_text(SHOUT)
    (package / "cli.js").chmod(0o755)
    (world.workspace / "node_modules/.bin/shout").symlink_to("../shout/cli.js")
    turns = [*(Turn(calls=[Call("run_command", {"command": c})]) for c in COMMANDS), Turn(text="Done.")]
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(turns, host=gateway) as model:
        action = composite(world, "workflow_run", event, model, sandbox=sandbox)
        action.environment["RUNNER_TOOL_CACHE"] = str(cache)
        paths = [str(path) for path in sorted(cache.glob("*/*/x64/bin"))]
        action.environment["PATH"] = ":".join([*paths, action.environment["PATH"]])
        result = action.run(timeout=300)

    said = [event["text"] for event in result.events("tool.result")]
    assert len(said) == len(COMMANDS), result.log
    places = {"cache": cache, "work": world.workspace}
    missing = {
        command: text
        for (command, words), text in zip(COMMANDS.items(), said, strict=True)
        if any(word.format(**places) not in text for word in words)
    }
    assert missing == {}, result.log


def test_the_chains_are_found_on_no_other_path(image: str) -> None:
    """Control: the image itself has none of them."""
    found = subprocess.run(
        ["docker", "run", "--rm", "--entrypoint", "sh", image, "-c", "command -v node npm go java gcc"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert found.stdout == ""
