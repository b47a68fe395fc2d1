"""The sandbox has an image of the user's own: a shell and nothing else, none at all, one that is not there."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.act import TOOLS
from tests.e2e.conftest import docker
from tests.e2e.job import composite
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import CONFIG, RUN_ID, World, fixing_turns

BUSYBOX = TOOLS / "busybox"
SHELL_ONLY, NO_SHELL = "airlock-test:busybox", "airlock-test:noshell"
ABSENT = "localhost:1/acme/none:x"  # nobody listens there

pytestmark = pytest.mark.skipif(not BUSYBOX.exists(), reason="no static busybox (.ci/docker-setup)")

# `busybox` itself is in that image alone, so a check that passes ran in it
CHECK = "#!/bin/sh\nbusybox true && exec grep -q 'discount_percent // 100' prices/cart.py\n"


def _import(name: str, links: list[str]) -> None:
    """An image of one static program at `/bin/busybox`, and links to it: what `FROM scratch` and COPY give."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        program = archive.gettarinfo(BUSYBOX, "bin/busybox")
        with BUSYBOX.open("rb") as file:
            archive.addfile(program, file)
        for link in links:
            entry = tarfile.TarInfo(f"bin/{link}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    subprocess.run(["docker", "import", "-", name], input=packed.getvalue(), check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module", autouse=True)
def _images() -> None:
    listed = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True).stdout
    applets = [name for name in listed.split() if name != "busybox"]
    _import(SHELL_ONLY, applets)
    _import(NO_SHELL, [name for name in applets if name not in ("sh", "ash", "bash", "hush")])


def test_an_image_with_a_shell_and_nothing_else_does_for_a_whole_run(
    make: Callable[..., World], image: str, gateway: str
) -> None:
    """Commands and both gates run in it as the workspace's owner, whom it does not know; the pull request opens."""
    world = make(files={"scripts/check.sh": CHECK})
    branch = f"airlock/fix-{RUN_ID}"
    first = Turn(calls=[Call("run_command", {"command": "id -u; whoami; ls -a /; test -w . && echo mine"})])
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer([first, *fixing_turns(branch)], host=gateway) as model:
        result = composite(world, "workflow_run", event, model, **{"sandbox-image": SHELL_ONLY}).run()

    assert (result.exit_status, result.outputs["outcome"], result.outputs["branch"]) == (0, "done", branch), result.log
    assert [(p["backend"], p["ok"], p["loopback"]) for p in result.events("sandbox.probe")] == [
        ("container", True, True)
    ]
    assert [(h["purpose"], h["passed"]) for h in result.events("hook.end")] == [("prepush", True), ("stop", True)]
    said = result.events("tool.result")[0]["text"]
    assert "1001" in said
    assert "mine" in said
    assert "usr" not in said.split(), "an image of Debian has /usr"


REFUSED = {
    NO_SHELL: (
        f"the image {NO_SHELL} has no shell (/bin/sh), so no command can run in it. Name an image that has one."
    ),
    ABSENT: (
        f"the image {ABSENT} is not on this runner and cannot be pulled (Get \"http://localhost:1/v2/\": "
        "dial tcp 127.0.0.1:1: connect: connection refused). "
        "Check its name; where it needs a login, pull it in an earlier step."
    ),
}  # fmt: skip


@pytest.mark.parametrize(("named", "by"), [(NO_SHELL, "input"), (ABSENT, "configuration")])
def test_an_image_that_cannot_be_used_ends_the_run_in_one_sentence(
    make: Callable[..., World], image: str, gateway: str, named: str, by: str
) -> None:
    """`auto` takes no other backend for it, no model is asked, and log, summary and exit status say so."""
    asked = f"  agent:\n    sandbox: {{image: {json.dumps(named)}}}\n"
    config = CONFIG.replace("  agent:\n", asked) if by == "configuration" else None
    world = make(config=config)
    inputs: dict[str, Any] = {"sandbox-image": named} if by == "input" else {}
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer([Turn(text="never")], host=gateway) as model:
        result = composite(world, "workflow_run", event, model, **inputs).run()
        requests = model.requests

    assert [(p["backend"], p["ok"]) for p in result.events("sandbox.probe")] == [("container", False)], result.log
    assert (result.exit_status, result.outputs["outcome"], result.outputs["stop-reason"]) == (4, "denied", "blocked")
    assert requests == []
    for text in (result.log, result.summary, json.dumps(result.events("run.end")[0]["reason"])[1:-1]):
        assert REFUSED[named] in text.replace("\\", "")
    assert docker("ps", "--all", "--quiet", "--filter", f"ancestor={NO_SHELL}") == ""
