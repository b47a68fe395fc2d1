"""What README and recipes say a run may do is what `explain` says of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.broker.models import PROVIDERS, parse_models
from agent.explain import main as explain
from tests.support.doc_pages import ROOT, blocks, rows, text_of

REPOSITORY = {"full_name": "acme/shop", "default_branch": "main", "id": 1}
MAINTAINER = {"login": "octocat", "type": "User"}


def configuration(mode: str) -> str:
    """The recipe that declares a mode, or the configuration of README."""
    texts = [block.text for block in blocks() if block.language == "yaml" and block.text.startswith("ai:")]
    found = [text for text in texts if mode in yaml.safe_load(text)["ai"].get("agent", {}).get("modes", {})]
    return found[0] if found else texts[0]


def explained(
    folder: Path, capsys: pytest.CaptureFixture[str], event: dict[str, Any], *more: str, config: str = ""
) -> Any:
    """The manifest of a run on this event, or the sentence why there is none."""
    (folder / "event.json").write_text(json.dumps({"repository": REPOSITORY, "sender": MAINTAINER, **event}))
    (folder / "airlock.yml").write_text(config)
    options = ["--event", str(folder / "event.json"), "--root", str(folder), "--config", str(folder / "airlock.yml")]
    status = explain([*options, "--actor-permission", "octocat=write", "--json", *more])
    said = capsys.readouterr()
    assert status == 0, said.err
    return json.loads(said.out) if said.out.startswith("{") else said.out


def comment(text: str, *, login: str = "octocat") -> dict[str, Any]:
    user = {"login": login, "type": "User"}
    said = {"id": 5, "body": text, "user": user, "updated_at": "2026-01-01T00:00:00Z"}
    issue = {"number": 7, "title": "t", "body": "b", "user": MAINTAINER, "pull_request": {"url": "u"}}
    return {"action": "created", "comment": said, "issue": issue, "sender": user}


def pull(folder: Path, repository: str) -> str:
    """The pull request that a comment is on, with its head in this repository or a fork."""
    head = {
        "ref": "topic",
        "sha": "1" * 40,
        "repo": {"full_name": repository, "id": 1 if repository == "acme/shop" else 2},
    }
    base = {"ref": "main", "sha": "2" * 40, "repo": REPOSITORY}
    value = {"number": 7, "title": "t", "body": "b", "state": "open", "user": MAINTAINER, "head": head, "base": base}
    (folder / "pull.json").write_text(json.dumps(value))
    return str(folder / "pull.json")


def test_a_fix_without_a_failing_check_offers_read_and_comment_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D6; with one, all tiers."""
    event, file = comment("/airlock fix-ci"), pull(tmp_path, "acme/shop")

    without = explained(tmp_path, capsys, event, "--pull", file, "--no-failing-check")
    failing = explained(tmp_path, capsys, event, "--pull", file)

    assert without["tiers"] == ["comment", "read"]
    assert not {"run_command", "write_file", "git_push", "create_pull_request"} & set(without["tools"])
    assert {"run_command", "write_file", "git_push", "create_pull_request"} <= set(failing["tools"])


def test_a_maintainer_can_have_a_forks_pull_request_reviewed_and_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recipe "Fork pull requests": the fork is the ceiling, whoever asks; no script is run on its code."""
    file, config = pull(tmp_path, "outsider/shop"), configuration("none")

    asked = explained(tmp_path, capsys, comment("/airlock review"), "--pull", file, config=config)
    more = explained(tmp_path, capsys, comment("/airlock implement x"), "--pull", file, config=config)
    own = explained(
        tmp_path, capsys, comment("/airlock implement x"), "--pull", pull(tmp_path, "acme/shop"), config=config
    )

    assert (asked["mode"], asked["tiers"], asked["hooks"]) == ("review", ["comment", "read"], {})
    assert "git" not in more["tiers"]
    assert "git" in own["tiers"]


def test_an_outsiders_comment_is_reads_alone_or_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same recipe, by its configuration."""
    event, file = comment("/airlock review", login="stranger"), pull(tmp_path, "outsider/shop")
    more = ("--pull", file, "--actor-permission", "stranger=read")

    assert explained(tmp_path, capsys, event, *more)["tiers"] == ["read"]
    said = explained(tmp_path, capsys, event, *more, config="ai: {agent: {outsiders: ignore}}\n")
    assert said.startswith("nothing is done: Outsiders are ignored here.")


@pytest.mark.parametrize(
    ("mode", "tool"), [("polish", "format_code"), ("upgrade", "look_up_package")], ids=["polish", "upgrade"]
)
def test_a_mode_of_a_recipe_starts_by_its_word_and_has_its_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str, tool: str
) -> None:
    """Finishing touches, major upgrades."""
    file = pull(tmp_path, "acme/shop")
    manifest = explained(
        tmp_path, capsys, comment(f"/airlock {mode} on this branch: please"), "--pull", file, config=configuration(mode)
    )

    assert manifest["mode"] == mode
    assert tool in manifest["tools"]
    assert (
        manifest["limits"]["toolCalls"]
        == yaml.safe_load(configuration(mode))["ai"]["agent"]["modes"][mode]["maxToolCalls"]
    )


def test_issue_enrichment_starts_by_its_label_and_writes_nothing_but_comments_and_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the labeller's right, although a stranger wrote the issue."""
    issue = {"number": 3, "title": "t", "body": "b", "user": {"login": "stranger", "type": "User"}}
    event = {"action": "labeled", "issue": issue, "label": {"name": "triage"}}

    manifest = explained(tmp_path, capsys, event, "--mode", "enrich", config=configuration("enrich"))

    assert (manifest["mode"], manifest["tiers"]) == ("enrich", ["comment", "read"])
    assert not {"file_issue", "submit_review", "run_command", "write_file"} & set(manifest["tools"])


def test_every_provider_is_in_the_table_with_an_address_that_works() -> None:
    """Recipe "Other models"."""
    table = {row[0].strip("`"): row[1:] for row in rows(text_of("docs/recipes.md"), "provider")}

    assert list(table) == list(PROVIDERS)
    for name, (model, base, *_) in table.items():
        address = re.search(r"https?://[^`\s]+", base)
        needs = "https://llm.example/v1" if name == "openai-compatible" else ""
        (parsed,) = parse_models([model.strip("`")], address[0] if address else needs)
        assert (parsed.provider, parsed.path.count("/v1/") <= 1) == (name, True)
        assert parsed.path.endswith(("/chat/completions", "/responses", "/messages"))
    with pytest.raises(Exception, match="needs `base-url`"):
        parse_models(["azure/x"], "")


def test_the_local_models_addresses_become_the_servers_own() -> None:
    """Recipe "Local models": what is asked for is /v1/chat/completions, once."""
    texts = [block.text for block in blocks() if "baseUrl: http://" in block.text]
    models = [parse_models([ai["model"]], ai["baseUrl"])[0] for ai in (yaml.safe_load(text)["ai"] for text in texts)]

    assert [(model.origin, model.path) for model in models] == [
        ("http://172.17.0.1:11434", "/v1/chat/completions"),
        ("http://gpu.internal.example:8000", "/v1/chat/completions"),
    ]


def test_the_contributing_page_names_what_the_code_has() -> None:
    """Steps for a tool, a provider, a route: each constant and key they name is there."""
    text = text_of(".github/CONTRIBUTING.md")

    assert "TOOL_TIERS" in (ROOT / "agent/contract/modes.py").read_text()
    assert "PROVIDERS" in (ROOT / "agent/broker/models.py").read_text()
    assert "class LlmPort" in (ROOT / "agent/harness/loop/ports.py").read_text()
    assert "class Wire" in (ROOT / "agent/harness/clients/wire.py").read_text()
    routes = json.loads((ROOT / "agent/broker/policy/routes.json").read_text())
    assert routes["never"]
    assert {"id", "method", "path", "tier", "tools", "gate", "match", "not_match"} <= {
        k for r in routes["github"] for k in r
    }
    assert "publisher" in {route.get("gate") for route in routes["github"]}
    assert all(f"`{word}`" in text for word in ("TOOL_TIERS", "PROVIDERS", "LlmPort", "Wire", "never", "tools"))
