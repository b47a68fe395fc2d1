"""`redteam --config`: one that opens a hole is told so, one that opens none passes, a broken one is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from agent.contract.errors import UserError
from tests.support.action import ROOT
from tests.support.redteam import runner
from tests.support.redteam.cases import load
from tests.support.redteam.selection import FIXTURES, QUICK, THEIRS, WITH_CONFIG
from tests.support.redteam.theirs import opened, read_theirs, wide_tools

HOOKS = "    stopScript: make test\n    branchPrefix: bot/\n    trigger: /bot\n    timeoutMinutes: 1\n"
OPEN = f"ai:\n  agent:\n{HOOKS}    allowProtectedPaths: [/.github/**]\n    sandbox: {{network: open, image: mine}}\n"
TIGHT = f"ai:\n  model: openai/x\n  agent:\n{HOOKS}    denyTools: [git_push, create_pull_request]\n"
TOOLS = """\
ai:
  connections:
    deploys:
      origin: https://deploys.example
      headers: {Authorization: {secret: DEPLOY_TOKEN, prefix: "Bearer "}}
      routes: [{method: POST, path: /**, tier: comment}, {method: GET, path: /v1/**, tier: read}]
  tools:
    - name: call_deploys
      tier: comment
      description: Calls the deploy service.
      schema: {type: object, properties: {service: {type: string}, action: {type: string}}}
      connection: deploys
      route: {method: POST, path: "/{service}/{action}"}
    - name: look_up
      tier: read
      description: Looks one deployment up.
      schema: {type: object, properties: {id: {type: string}}}
      connection: deploys
      route: {method: GET, path: "/v1/deployments/{id}"}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "airlock.yml"
    path.write_text(text)
    return path


def redteam(config: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The command on a configuration."""
    command = [sys.executable, "-m", "agent", "redteam", "--config", str(config), *more]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_holes_that_a_configuration_opens_are_breaches(tmp_path: Path) -> None:
    """The runs really push to the configuration and really reach the sink, and the command ends with 1."""
    junit = tmp_path / "redteam.xml"
    only = ["--only", "U01/pushes-its-own", "--only", "U01/sends"]
    done = redteam(write(tmp_path, OPEN), *only, "--junit", str(junit))

    assert done.returncode == 1, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last == ("BREACHES under your configuration: U01/pushes-its-own-configuration, U01/sends-files-out")
    assert "refs/heads/agent/config-" in done.stdout
    assert "your configuration: commands reach the network" in done.stdout
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    assert suite.findall("testcase/failure")[1].get("message", "").startswith("A5 the sink recorded")


def test_a_stricter_configuration_passes_and_what_it_proves_nothing_of_is_named(tmp_path: Path) -> None:
    """Tools that it denies are no breach; a permitted act that works shows that the runs were no dead ones."""
    told = tmp_path / "redteam.json"
    done = redteam(write(tmp_path, TIGHT), "--only", "U01/pushes-a", "--only", "R07/by-tool", "--json", str(told))

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "no breach under your configuration"
    own = "ai.model, ai.agent.stopScript, ai.agent.branchPrefix, ai.agent.trigger, ai.agent.timeoutMinutes"
    assert f"not in force here, since each case brings its own: {own}\n" in done.stdout
    rows = json.loads(told.read_text())
    assert [(r["case"], r["state"], r["control"]) for r in rows] == [
        ("U01", "held", "worked"),
        ("R07", "held", "worked"),
    ]


def test_a_configuration_under_which_nothing_works_is_no_pass(tmp_path: Path) -> None:
    """A run that never started holds everything: exit status 1, and it says so."""
    done = redteam(write(tmp_path, "ai:\n  agent:\n    denyTools: [read_file]\n"), "--only", "U01/pushes-a")

    assert done.returncode == 1
    assert "not shown under your configuration" in done.stdout


def test_a_tool_whose_whole_path_the_model_writes_is_a_breach_and_a_narrow_one_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = read_theirs(write(tmp_path, TOOLS))

    (wide,) = wide_tools(theirs)
    assert "call_deploys sends POST /{service}/{action} with the secret DEPLOY_TOKEN" in wide
    assert list(opened(theirs)) == ["the connection deploys: POST /**, GET /v1/**"]
    assert theirs["ai"]["connections"]["deploys"]["origin"].endswith(".invalid"), "their service is never reached"
    narrow = TOOLS.replace("/{service}/{action}", "/v1/{service}/{action}")
    assert list(wide_tools(read_theirs(write(tmp_path, narrow)))) == []


def test_what_is_the_cases_own_is_not_taken_from_the_configuration(tmp_path: Path) -> None:
    assert read_theirs(write(tmp_path, OPEN)) == {
        "ai": {"agent": {"allowProtectedPaths": ["/.github/**"], "sandbox": {"network": "open"}}}
    }
    assert read_theirs(write(tmp_path, TIGHT)) == {"ai": {"agent": {"denyTools": ["git_push", "create_pull_request"]}}}


def test_a_broken_configuration_is_bad_use_with_file_line_and_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "ai:\n  agent:\n    allowProtectedPath: [x]\n")

    assert runner.main(["--config", str(path)]) == 2
    assert f"{path}, line 3: ai.agent.allowProtectedPath" in capsys.readouterr().err
    with pytest.raises(UserError, match="Name your"):
        read_theirs(tmp_path / "none.yml")


def test_the_quick_choices_name_runs_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """A case that is renamed is not silently left out; without --all the list is the quick choice."""
    assert {plan.name for plan in load([FIXTURES])} >= QUICK
    assert {plan.name for plan in load([THEIRS, FIXTURES])} >= WITH_CONFIG
    assert runner.main(["--list"]) == 0
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} == QUICK
    assert runner.main(["--list", "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(load([FIXTURES]))
