"""Gates have the dependencies that setup installed, as they were before the model's first command."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import FIX, RUN_ID, World, fixing_turns

# A venv whose script names its python by the workspace's path, and a tool of a node package: both ignored, and each
# says which copy of itself ran.
SETUP = """\
#!/bin/sh
set -e
python3 -m venv --without-pip .venv
echo "#!$PWD/.venv/bin/python" > .venv/bin/check
printf 'import sys, unittest\\nprint("venv", sys.prefix)\\nunittest.main(module=None)\\n' >> .venv/bin/check
mkdir -p node_modules/.bin
printf '#!/bin/sh\\necho genuine\\nexec .venv/bin/check -q\\n' > node_modules/.bin/check
chmod +x .venv/bin/check node_modules/.bin/check
"""
CONFIG = """\
ai:
  agent:
    setupScript: sh scripts/setup.sh
    stopScript: node_modules/.bin/check
    prepushScript: node_modules/.bin/check; s=$?; echo exit 0 > node_modules/.bin/check; echo > .venv/bin/check; exit $s
    timeoutMinutes: 5
  github:
    logHosts: ["{log_host}"]
"""
FILES = {"scripts/setup.sh": SETUP, ".gitignore": "__pycache__/\nnode_modules\n.venv/\n"}
HOLLOW = (
    "set -e; node_modules/.bin/check 2>&1 || echo red; echo 'exit 0' > node_modules/.bin/check; rm .venv/bin/python; "
    "printf '#!/bin/sh\\nexit 0\\n' > .venv/bin/python; chmod +x .venv/bin/python; "
    "cp .venv/bin/python .venv/bin/check; "
    "node_modules/.bin/check && .venv/bin/check && echo hollow"
)
BRANCH = f"airlock/fix-{RUN_ID}"


def test_a_gate_runs_what_setup_installed_whatever_the_model_or_an_earlier_gate_made_of_it(
    make: Callable[..., World],
) -> None:
    """The model hollows tool and interpreter, the prepush gate hollows its own copy: both gates judge the code alone.

    Broken code fails the stop gate, mended code passes both, and the pull request opens.
    """
    world = make(config=CONFIG, files=FILES)
    turns = [
        Turn(calls=[Call("run_command", {"command": HOLLOW})]),
        Turn(text="Done."),  # the stop gate on broken code
        Turn(calls=[Call("edit_file", FIX)]),
        *fixing_turns(BRANCH)[5:],
    ]
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(turns) as model:
        result = world.run("workflow_run", event, model)

    hooks = [(e["purpose"], e["passed"]) for e in result.events("hook.end")]
    assert hooks == [("setup", True), ("stop", False), ("prepush", True), ("stop", True)], result.log
    hollowed = result.events("tool.result")[0]["text"]
    assert "red" in hollowed
    assert "\nhollow\n" in hollowed + "\n", "the tool and the interpreter passed in the workspace"
    for gate in result.events("hook.end")[1:]:
        assert f"genuine\nvenv {world.workspace}/.venv\n" in gate["output"]
    assert "FAILED" in result.events("hook.end")[1]["output"]
    assert (result.exit_status, result.outputs["outcome"], result.outputs["branch"]) == (0, "done", BRANCH)
    assert len(world.repository.pulls()) == 1
    changed = world.repository.git.run("diff", "--name-only", world.head, f"refs/heads/{BRANCH}").decode().split()
    assert changed == ["prices/cart.py"]


def test_without_setup_the_ignored_folders_of_earlier_steps_are_there(make: Callable[..., World]) -> None:
    """A job that installs by steps of its own, before this one."""
    world = make(
        config=CONFIG.replace("    setupScript: sh scripts/setup.sh\n", "").replace(
            "node_modules/.bin/check;", "true;"
        ),
        files=FILES,
    )
    tool = world.workspace / "node_modules/.bin/check"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho of a step; exec sh scripts/check.sh\n")
    tool.chmod(0o755)
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    turns = [Turn(calls=[Call("edit_file", FIX)]), *fixing_turns(BRANCH)[5:]]
    with ModelServer(turns) as model:
        result = world.run("workflow_run", event, model)

    (stop,) = [e for e in result.events("hook.end") if e["purpose"] == "stop"]
    assert stop["output"].startswith("[stdout]\nof a step\n")
    assert (result.exit_status, stop["passed"]) == (0, True), result.log
