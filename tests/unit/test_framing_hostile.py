"""The hostile inputs of fixtures/hostile meet the tools: framed, refused, or answered in time."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from agent.contract.framing import DATA_SENTENCE, frame
from agent.contract.gitignore import Rules
from agent.harness.playbooks import NAMES, system_prompt
from tests.support.oracles import breakouts, hidden
from tests.support.tools import Bench, facts

HOSTILE = Path(__file__).parents[2] / "fixtures/hostile"
TEXTS = sorted((HOSTILE / "texts").iterdir())


@pytest.mark.parametrize("file", TEXTS, ids=lambda f: f.name)
def test_a_hostile_text_arrives_only_inside_its_frame(file: Path, tmp_path: Path) -> None:
    """As file, search result or request it is framed whole; our own words after the frame hold none of it."""
    text = file.read_text()
    (tmp_path / "a.md").write_text(text)
    bench = Bench(tmp_path)
    for result in (bench("read_file", path="a.md"), bench("grep", pattern="."), bench("read_file", path="b.md")):
        framed, _, ours = result.text.rpartition(DATA_SENTENCE)
        assert framed.startswith('<untrusted-content source="third-party">\n')
        assert framed.endswith("\n</untrusted-content>\n")
        assert len(breakouts(result.text)) == 2
        assert hidden(result.text) == []
        assert len(ours) < 120
    kept = [line for line in text.split("\n") if line.isascii() and "untrusted-content" not in line]
    assert kept
    assert all(line in frame(text) for line in kept)


@pytest.mark.parametrize("mark", json.loads((HOSTILE / "marks.json").read_text()))
def test_every_known_spelling_of_the_tag_is_broken(mark: str) -> None:
    """Alone, repeated, and cut at every place."""
    for payload in (mark, mark * 3, *(mark[:i] for i in range(len(mark))), *(mark[i:] for i in range(len(mark)))):
        assert len(breakouts(frame(payload))) == 2


@pytest.mark.parametrize("entry", json.loads((HOSTILE / "paths.json").read_text()), ids=lambda e: e["why"])
def test_no_tool_opens_a_hostile_path(entry: dict[str, str], tmp_path: Path) -> None:
    """Reading, listing, searching, writing, editing and deleting all answer with an error and do nothing."""
    ws = tmp_path / "ws"
    (ws / ".git").mkdir(parents=True)
    (ws / ".git/config").write_text("[core] canary\n")
    (ws / "README.md").write_text("readme\n")
    (tmp_path / "secret.txt").write_text("canary\n")
    bench = Bench(ws)
    path = entry["path"]
    for result in (
        bench("read_file", path=path),
        bench("list_dir", path=path),
        bench("grep", pattern=".", path=path),
        bench("write_file", path=path, content="x"),
        bench("edit_file", path=path, old="canary", new="x"),
        bench("delete_file", path=path),
    ):
        assert result.is_error
        assert "canary" not in result.text.replace("'canary'", "")
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == [
        "secret.txt", "ws", "ws/.git", "ws/.git/config", "ws/README.md",
    ]  # fmt: skip
    assert (tmp_path / "secret.txt").read_text() == "canary\n"
    assert not bench("read_file", path="README.md").is_error


def test_hostile_patterns_end(tmp_path: Path) -> None:
    """Ignore rules and expressions made to run for ever are answered at once."""
    patterns = json.loads((HOSTILE / "patterns.json").read_text())
    (tmp_path / "a.txt").write_text("a" * 100_000 + "\n")
    bench = Bench(tmp_path)
    started = time.monotonic()
    for rule in patterns["ignore"]:
        Rules.parse(rule).verdict("a/" * 2000 + "a" * 90, "a" * 90, folder=False)
    for expression in patterns["grep"]:
        assert not bench("grep", pattern=expression).is_error
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("name", NAMES)
def test_no_hostile_text_is_in_a_prompt(name: str) -> None:
    """A prompt is the same whatever a third party writes: it takes nothing from them."""
    prompt = system_prompt(facts(Path("/ws"), playbook=name))
    for file in TEXTS:
        for line in file.read_text().split("\n"):
            if len(line) > 20 and line != DATA_SENTENCE:
                assert line not in prompt
