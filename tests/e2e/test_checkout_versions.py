"""Workspaces as `actions/checkout` v4 to v7 leave them: made by real git over HTTP, with a submodule, one commit deep.

v5 leaves what v4 leaves, and v7 what v6 leaves: a header in every `.git/config`, or a file in RUNNER_TEMP that each
includes. The checkout's token is none of the action's inputs, so nothing but its place keeps it from the agent.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable

import pytest

from tests.e2e.conftest import give
from tests.e2e.job import composite, container_action, tree
from tests.support.checkouts import actions_checkout, git
from tests.support.github_sim import GitHubSim
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import RUN_ID, World, fixing_turns

TOKEN = "ghs_" + "CheckoutT0ken" * 3
HEADER = "AUTHORIZATION: basic"
# what a command can find of it: in the configuration git reads, and in any file there is
SEARCH = f"""
echo '== config'; git config --list; git -C vendor/lib config --list; cat .git/config .git/modules/vendor/lib/config
echo '== files'; grep -rIls '{HEADER}' --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr / && echo FOUND
find / -name 'git-credentials-*' -not -path '/proc/*' 2>/dev/null
git ls-remote origin 2>&1; git log --oneline; git status --short
"""


def checked_out(make: Callable[..., World], github: GitHubSim, version: str) -> World:
    """The main job's world with a submodule, its workspace made as this version makes it."""
    library = github.create_repository("example/lib", files={"lib.txt": "a library\n"})
    modules = f'[submodule "vendor/lib"]\n\tpath = vendor/lib\n\turl = {github.server_url}/example/lib\n'
    world = make(files={".gitmodules": modules, "vendor/lib": ("160000", library.branch("main"))})
    shutil.rmtree(world.workspace)
    github.token(TOKEN)
    origin = f"{github.server_url}/{world.repository.full_name}"
    actions_checkout(version, world.workspace, world.folder / "temp", origin=origin, token=TOKEN, sha=world.head)
    give(world, 1001)
    return world


def holders(world: World) -> set[str]:
    """Files of the runner that hold the header."""
    found = [p for place in (world.workspace, world.folder / "temp") for p in place.rglob("*") if p.is_file()]
    return {path.name for path in found if HEADER.encode() in path.read_bytes()}


def may_push(world: World) -> bool:
    """Whether git in the workspace still is who the checkout made it."""
    return bool(git(world.workspace, "push", "--dry-run", "--porcelain", "origin", "HEAD:refs/heads/probe"))


@pytest.mark.parametrize(
    ("shape", "version"),
    [("container", "v4"), ("process", "v6"), ("container-action", "v4"), ("container-action", "v6")],
    ids=["container-v4-v5", "process-v6-v7", "container-action-v4-v5", "container-action-v6-v7"],
)
def test_a_checkouts_credentials_are_kept_from_the_agent_and_put_back(
    make: Callable[..., World], github: GitHubSim, image: str, gateway: str, shape: str, version: str
) -> None:
    """The job is done; no file a command can read and nothing that is kept or sent holds the token; it works after."""
    world = checked_out(make, github, version)
    before = tree(world.workspace / ".git")
    temp = {p.name: p.read_bytes() for p in (world.folder / "temp").glob("git-credentials-*")}
    kept = holders(world)
    assert kept == ({"config"} if version == "v4" else set(temp))
    assert may_push(world)
    branch = f"airlock/fix-{RUN_ID}"
    turns = [
        Turn(calls=[Call("run_command", {"command": SEARCH}), Call("read_file", {"path": ".git/config"})]),
        *fixing_turns(branch),
    ]
    event = github.event("workflow_run", world.repository, run=RUN_ID)

    with ModelServer(turns, host=gateway) as model:
        if shape == "container-action":
            result = container_action(world, "workflow_run", event, model, image).run()
        else:
            result = composite(world, "workflow_run", event, model, sandbox=shape).run()
        sent = [request.raw for request in model.requests]

    assert (result.exit_status, result.outputs["outcome"]) == (0, "done"), result.log
    said = result.events("tool.result")[0]["text"]
    assert "gc.auto=0" in said
    assert "FOUND" not in said
    assert [word for word in ("extraheader", "includeif", "insteadof", "git-credentials") if word in said.lower()] == []
    pair = base64.b64encode(f"x-access-token:{TOKEN}".encode())
    forms = [TOKEN.encode(), pair]
    masks = [line for line in result.log.splitlines() if line.startswith("::add-mask::")]
    in_sight = version == "v4" or shape == "container-action"  # RUNNER_TEMP is not in the composite's container
    assert (f"::add-mask::{TOKEN}" in masks) == in_sight, "what the broker comes to know, the runner hides too"
    log = "\n".join(line for line in result.log.splitlines() if line not in masks)
    places = [*sent, log.encode(), result.summary.encode(), *result.files.values()]
    assert [form for form in forms if any(form in place for place in places)] == []
    assert tree(world.workspace / ".git") == before
    assert {p.name: p.read_bytes() for p in (world.folder / "temp").glob("git-credentials-*")} == temp
    assert may_push(world)
