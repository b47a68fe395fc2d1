"""Every payload that GitHub publishes, of every event and server version, from npm (kept parts: fixtures/events)."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from agent.broker.event import EVENTS, Skip, Trigger, read_event
from agent.broker.gate import Ceiling, decide
from agent.broker.mode import ModeSettings, Wish, wished_mode
from agent.contract.errors import UserError
from agent.contract.modes import get_mode

PACKAGE = "@octokit/webhooks-examples@7.6.1"
FOLDERS = ("api.github.com", "ghes-31", "ghes-32", "ghes-33", "ghes-34", "ghes-35")

pytestmark = [
    pytest.mark.contract,
    pytest.mark.skipif(shutil.which("npm") is None, reason="GitHub's payloads come from npm"),
]


@lru_cache(maxsize=1)
def examples() -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Event name and payload of every example, by folder of the package."""
    cache = Path(tempfile.gettempdir()) / f"webhooks-examples-{PACKAGE.rpartition('@')[2]}"
    archive = cache / "package.tgz"
    if not archive.is_file():
        cache.mkdir(exist_ok=True)
        place = Path(tempfile.mkdtemp(dir=cache))
        done = subprocess.run(
            ["npm", "pack", "--silent", PACKAGE], cwd=place, check=True, capture_output=True, text=True, timeout=540
        )
        (place / done.stdout.split()[-1]).replace(archive)
        place.rmdir()
    found = {}
    with tarfile.open(archive) as tar:
        for folder in FOLDERS:
            member = tar.extractfile(f"package/{folder}/index.json")
            assert member is not None
            entries = json.load(member)
            found[folder] = [(e["name"], payload) for e in entries for payload in e["examples"]]
    return found


def identity(payload: dict[str, Any]) -> dict[str, str]:
    """What a runner would say beside this payload."""
    repository = payload.get("repository") or {}
    return {"GITHUB_REPOSITORY": repository.get("full_name") or "acme/widgets", "GITHUB_ACTOR": "somebody"}


def check(name: str, payload: dict[str, Any]) -> str:
    """Read one payload to its verdict; gives what became of it. Fails on anything but a sentence."""
    try:
        trigger = read_event(name, json.dumps(payload).encode(), identity(payload))
        if isinstance(trigger, Skip):
            assert trigger.sentence.endswith(".")
            return "skipped"
        assert isinstance(trigger, Trigger)
        wish = wished_mode("auto", trigger, ModeSettings())
    except UserError as exc:
        return "refused" if str(exc).rstrip().endswith(".") else f"no sentence: {exc}"
    if isinstance(wish, Skip):
        assert wish.sentence.endswith(".")
        return "skipped"
    assert isinstance(wish, Wish)
    gate = decide(trigger, get_mode(wish.mode), {})
    assert gate.ceiling is Ceiling.RESTRICTED, "nobody was asked, so nobody has a right"
    return "read"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_published_payload_is_read_or_refused_with_a_sentence(folder: str) -> None:
    """Under its own name: the events that Airlock knows are read, all others end with one sentence."""
    found = [(name, check(name, payload)) for name, payload in examples()[folder]]

    assert len(found) >= (300 if folder == "api.github.com" else 49)
    assert {verdict for _, verdict in found} <= {"read", "skipped", "refused"}
    assert {verdict for name, verdict in found if name not in EVENTS} == {"skipped"}
    assert {name for name, verdict in found if verdict == "read"} >= {"pull_request"}


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_every_payload_delivered_under_another_events_name_ends_the_same_way(name: str) -> None:
    """A payload of another shape than its name says gives no exception and no right."""
    for folder in FOLDERS:
        for _, payload in examples()[folder]:
            if name == "schedule":
                assert isinstance(read_event(name, json.dumps(payload).encode(), identity(payload)), Trigger | Skip)
            else:
                assert check(name, payload) in ("read", "skipped", "refused")
