"""Every code block of the pages is what it claims to be: workflows, configurations, Python, commands, requests."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import agent
from agent.__main__ import main as command_line
from agent.broker.config import read_config
from agent.broker.mode import WORDS, find_call
from tests.support.doc_pages import ROOT, Block, blocks, blocks_of

LANGUAGES = {"yaml", "python", "sh", "console", "text"}
BLOCKS = blocks()
BIN = Path(sys.executable).parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
SHA = "0123456789abcdef0123456789abcdef01234567"
SAFE = ("manifest",)  # commands that only print; run in an empty folder


def of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


def real(text: str) -> str:
    """A workflow as a user would have it: with a release's commit in place of the placeholder."""
    return text.replace("OWNER/airlock@COMMIT", f"acme/airlock@{SHA}")


def kind(block: Block) -> str:
    """workflow, configuration, or a part of a workflow: a job, steps, the `with:` of our step."""
    value = yaml.safe_load(block.text)
    if isinstance(value, list):
        return "steps"
    keys = {str(key) for key in value}
    if "jobs" in keys:
        return "workflow"
    return {"ai": "configuration", "with": "with"}.get(next(iter(keys)), "jobs") if len(keys) == 1 else "jobs"


def whole(block: Block) -> str:
    """The block as a whole workflow."""
    what, value = kind(block), yaml.safe_load(block.text)
    if what == "workflow":
        return real(block.text)
    step = [{"uses": "OWNER/airlock@COMMIT", **value}] if what == "with" else value
    jobs = value if what == "jobs" else {"job": {"runs-on": "ubuntu-latest", "steps": step}}
    return real(yaml.safe_dump({"on": "workflow_dispatch", "jobs": jobs}))


def our_steps(text: str) -> list[dict[str, Any]]:
    flow = yaml.safe_load(text)
    steps = [step for job in flow["jobs"].values() for step in job.get("steps", ())]
    return [step for step in steps if step.get("uses", "").startswith("acme/airlock@")]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_says_which_language_it_is(block: Block) -> None:
    """One of those that are checked below."""
    assert block.language in LANGUAGES


def test_blocks_are_found_with_their_language_and_line() -> None:
    """Indented ones too; the checks below are empty without this."""
    text = "a\n```yaml\nai: {}\n```\n- b\n\n  ```sh\n  make x\n  ```\n"

    assert blocks_of("p.md", text) == [Block("p.md", 2, "yaml", "ai: {}\n"), Block("p.md", 7, "sh", "make x\n")]
    assert len(of("yaml")) > 15


@pytest.mark.parametrize("block", [block for block in of("yaml") if kind(block) == "configuration"], ids=str)
def test_a_configuration_is_read(block: Block) -> None:
    """By the reader of a run."""
    assert read_config(block.text.encode()).present


def test_workflows_pass_githubs_schema_and_the_auditor(tmp_path: Path) -> None:
    """Parts are put into a workflow first; whole ones are audited as they stand."""
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    flows = [block for block in of("yaml") if kind(block) != "configuration"]
    complete = []
    for number, block in enumerate(flows):
        file = folder / f"{number}-{Path(block.page).stem}-{block.line}.yml"
        file.write_text(whole(block))
        complete += [str(file)] if kind(block) == "workflow" else []
    files = map(str, folder.iterdir())
    schema = [f"{BIN}/check-jsonschema", "--quiet", "--builtin-schema", "vendor.github-workflows", *files]
    audit = [f"{BIN}/zizmor", "--quiet", "--offline", *complete]
    results = [subprocess.run(command, capture_output=True, text=True, check=False) for command in (schema, audit)]

    assert len(complete) >= 4
    assert [result.stdout + result.stderr for result in results if result.returncode] == []


@pytest.mark.parametrize("block", [block for block in of("yaml") if kind(block) == "workflow"], ids=str)
def test_a_whole_workflow_asks_for_little_and_ends(block: Block) -> None:
    """No permission at the top, those of the job named, one run at a time, the job's time-out above the run's own."""
    flow = yaml.safe_load(real(block.text))

    assert flow["permissions"] == {}
    assert "concurrency" in flow or all("concurrency" in job for job in flow["jobs"].values())
    for job in flow["jobs"].values():
        ours = [step for step in job["steps"] if step.get("uses", "").startswith("acme/airlock@")]
        assert job["permissions"]
        assert job["timeout-minutes"] > max(
            [float(step["with"].get("timeout-minutes", 30)) for step in ours], default=0
        )


@pytest.mark.parametrize("block", [block for block in of("yaml") if kind(block) != "configuration"], ids=str)
def test_a_step_gives_our_action_only_inputs_that_it_has(block: Block) -> None:
    """GitHub only warns of an input that does not exist; the setting would count for nothing."""
    steps = our_steps(whole(block))
    given = {name for step in steps for name in step.get("with", {})}
    read = set(re.findall(r"steps\.airlock\.outputs\.([\w-]+)", block.text))

    assert given <= set(ACTION["inputs"])
    assert read <= set(ACTION["outputs"])


@pytest.mark.parametrize("block", of("python"), ids=str)
def test_python_compiles_and_calls_what_there_is(block: Block) -> None:
    """Names imported from us exist, and calls of them fit their signatures."""
    tree = ast.parse(block.text)
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "agent"
        for alias in node.names
    }

    assert [name for name in names if not hasattr(agent, name)] == []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            keywords = {keyword.arg: None for keyword in node.keywords if keyword.arg}
            inspect.signature(getattr(agent, node.func.id)).bind(*node.args, **keywords)


@pytest.mark.parametrize("block", [block for block in of("python") if "import" in block.text], ids=str)
def test_python_runs_up_to_the_run_itself(
    block: Block, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real client and real tools, handed to a `run_agent` that answers; docs/examples is run whole elsewhere."""
    handed: list[inspect.BoundArguments] = []
    signature = inspect.signature(agent.run_agent)

    def answer(*arguments: Any, **options: Any) -> Any:
        handed.append(signature.bind(*arguments, **options))
        return SimpleNamespace(ok=True, output="said by the model", reason="")

    monkeypatch.setattr(agent, "run_agent", answer)
    monkeypatch.setenv("KEY", "k")
    tool = agent.AgentTool("look", agent.Tier.READ, "Look.", {"type": "object"}, lambda *_: agent.ToolOutput("x"))
    exec(compile(block.text, str(block), "exec"), {"key": "k", "fetch_advisory": tool})

    (bound,) = handed
    assert isinstance(bound.arguments["client"], agent.Client)
    assert [type(one) for one in bound.arguments["tools"]] == [agent.AgentTool]
    assert bound.arguments["mode"].name == "review"
    assert "said by the model" in capsys.readouterr().out


def commands() -> list[tuple[str, list[str]]]:
    """Every command line of the pages, as words; a console's output is left out."""
    found = []
    for block in of("sh", "console"):
        for line in block.text.replace("\\\n", " ").splitlines():
            if block.language == "console" and not line.startswith("$ "):
                continue
            words = shlex.split(line.removeprefix("$ "), comments=True)
            found += [(str(block), words)] if words else []
    return found


def helped(command: str) -> str:
    """What a command says of its options."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        command_line([command, "--help"])
    return said.getvalue()


@pytest.mark.parametrize(("where", "words"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_command_exists_with_its_options(where: str, words: list[str], tmp_path: Path) -> None:
    """Targets of make, commands of ours with options that they have; those that only print are run."""
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert [word for word in words[1:] if "=" not in word and word not in targets] == []
    elif words[1:3] == ["-m", "agent"]:
        options = [word.partition("=")[0] for word in words[4:] if word.startswith("--")]
        usage = helped(words[3]) if len(words) > 3 else ""
        assert len(words) == 3 or "usage:" in usage, f"no command {words[3]}"
        assert [option for option in options if option not in usage] == []
        if len(words) > 3 and words[3] in SAFE:
            run = [sys.executable, "-m", "agent", *words[3:], "--root", str(tmp_path)]
            assert subprocess.run(run, cwd=ROOT, capture_output=True, check=False).returncode == 0
    else:
        assert words[0] in {"git", "gh", "docker"}, f"nothing checks {words[0]}"


@pytest.mark.parametrize("block", [block for block in of("text") if block.text.startswith("/airlock")], ids=str)
def test_a_request_in_a_comment_starts_a_run(block: Block) -> None:
    """As the broker reads it."""
    call = find_call(block.text, "/airlock")

    assert call is not None
    assert call.word in WORDS
