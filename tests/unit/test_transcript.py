"""The transcript: chained, redacted before it is serialised, valid up to the last whole event (B9, D7)."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.broker.redact import Redactor
from agent.broker.transcript import FIELD_CAP, SCHEMA, Transcript, read, verify
from agent.contract.errors import UpstreamError, UserError
from agent.contract.recorded import recorded_turns
from agent.contract.totals import Totals
from agent.contract.transcript import EVENTS, FIRST, HARNESS_TYPES, json_schema
from tests.support import make_corpus

PASSWORD = 'pa"ss\\word-51c0ffee'


def make(tmp_path: Path, *, secrets: dict[str, str] | None = None, clock: Any = None) -> Transcript:
    ticks = itertools.count(1000)
    return Transcript(tmp_path / "transcript.jsonl", Redactor(secrets or {}), clock or (lambda: float(next(ticks))))


def lines(transcript: Transcript) -> list[dict[str, Any]]:
    return [json.loads(line) for line in transcript.path.read_bytes().split(b"\n")[:-1]]


def test_each_line_names_the_hash_of_the_one_before(tmp_path: Path) -> None:
    """The chain is what a reader can check with sha256sum; the checker agrees."""
    transcript = make(tmp_path)
    transcript.write("run.start", mode="review", event="pull_request", repository="acme/shop")
    transcript.write("log", message="two")
    raw = transcript.path.read_bytes().split(b"\n")
    assert lines(transcript) == [
        {
            "seq": 0, "ts": 1000.0, "type": "run.start", "mode": "review", "event": "pull_request",
            "repository": "acme/shop", "prev": FIRST,
        },
        {"seq": 1, "ts": 1001.0, "type": "log", "message": "two", "prev": hashlib.sha256(raw[0]).hexdigest()},
    ]  # fmt: skip
    assert transcript.digest == hashlib.sha256(raw[1]).hexdigest()
    assert verify(transcript.path) == []


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda raw: raw.replace(b'"two"', b'"TWO"'), "line 3: `prev` is not the hash of the line before"),
        (lambda raw: b"\n".join(raw.split(b"\n")[1:]), "line 1: `prev` is not the hash of the line before"),
        (lambda raw: raw[:-10], "line 3: cut off"),
        (lambda raw: raw.replace(b'"message":"one"', b'"massage":"one"'), "line 1: 'message' is a required property"),
        (lambda raw: raw.replace(b'"type":"log"', b'"type":"lag"', 1), "line 1: 'lag' is not one of"),
        (lambda raw: raw + b"{\n", "line 4: not JSON"),
    ],
)
def test_the_checker_names_what_was_done_to_a_transcript(tmp_path: Path, damage: Any, fault: str) -> None:
    """Changed, removed, cut off, or of no known form: each is told with its line."""
    transcript = make(tmp_path)
    for word in ("one", "two", "three"):
        transcript.write("log", message=word)
    transcript.path.write_bytes(damage(transcript.path.read_bytes()))
    assert any(found.startswith(fault) for found in verify(transcript.path)), verify(transcript.path)


def test_values_are_redacted_before_they_are_serialised(tmp_path: Path) -> None:
    """F08: a secret with quote and backslash; keys, nested values and credential shapes too."""
    token = make_corpus.value(random.Random(2), "github-app-jwt")
    transcript = make(tmp_path, secrets={"DB": PASSWORD})
    transcript.write(
        "tool.result",
        name="run_command",
        text=f"token: {PASSWORD} end",
        extra={PASSWORD: [{"deep": f"x{PASSWORD}"}], "password": "Zx81-kq77-pool", "n": 1.5},
    )
    transcript.write("log", message=f"got {token}", raw=f"b {PASSWORD}".encode())
    first, second = lines(transcript)
    assert first["text"] == "token: [redacted:DB] end"
    assert first["extra"] == {
        "[redacted:DB]": [{"deep": "x[redacted:DB]"}],
        "password": "[redacted:password]",
        "n": 1.5,
    }
    assert second["message"] == "got [redacted:github-token]"
    assert second["raw"] == "b [redacted:DB]"
    assert verify(transcript.path) == []


def test_nothing_in_the_file_is_invisible(tmp_path: Path) -> None:
    """Tag characters, direction marks and line separators are written as JSON escapes and read back whole."""
    text = "a\U000e0041\u202eb\u2028c\x1b[31m\x7f"
    transcript = make(tmp_path)
    transcript.write("log", message=text)
    raw = transcript.path.read_bytes()
    assert raw.isascii()
    assert not any(byte < 32 for byte in raw[:-1])
    assert lines(transcript)[0]["message"] == text


def test_the_harness_cannot_forge_the_brokers_own_words(tmp_path: Path) -> None:
    """`seq`, `ts`, `type` and `prev` are the writer's; decisions are no type the harness may report."""
    transcript = make(tmp_path)
    transcript.write("log", message="x", seq=9, ts=0, type="gate.decision", prev="0")
    (event,) = lines(transcript)
    assert (event["seq"], event["ts"], event["type"], event["prev"]) == (0, 1000.0, "log", FIRST)
    assert HARNESS_TYPES.isdisjoint({"gate.decision", "egress.denied", "git.push", "run.end", "hook.end", "manifest"})
    assert {"model.response", "tool.call", "tool.result", "agent.rendered"} <= HARNESS_TYPES
    with pytest.raises(ValueError):
        transcript.write("made.up", message="x")


def test_odd_values_become_json(tmp_path: Path) -> None:
    """NaN, deep nesting, objects and a text over the cap neither fail nor break the line."""
    deep: Any = "x"
    for _ in range(500):
        deep = [deep]
    transcript = make(tmp_path)
    transcript.write("log", message="y" * (FIELD_CAP + 5), deep=deep, nan=float("nan"), path=Path("/a"), s={1})
    (event,) = lines(transcript)
    assert len(event["message"]) < FIELD_CAP + 100
    assert "[5 characters left out]" in event["message"]
    assert (event["nan"], event["path"], event["s"]) == ("nan", "/a", [1])
    assert verify(transcript.path) == []


def test_a_clock_set_back_does_not_turn_the_order_around(tmp_path: Path) -> None:
    """Times never go down."""
    times = iter([100.0, 40.0, 101.0])
    transcript = make(tmp_path, clock=lambda: next(times))
    for _ in range(3):
        transcript.write("log", message="x")
    assert [event["ts"] for event in lines(transcript)] == [100.0, 100.0, 101.0]


def test_threads_write_whole_lines_in_one_chain(tmp_path: Path) -> None:
    """Tool calls of one batch report side by side."""
    transcript = make(tmp_path)

    def work(name: str) -> None:
        for _ in range(40):
            transcript.write("log", message=name * 500)

    threads = [threading.Thread(target=work, args=(str(n),)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verify(transcript.path) == []
    assert len(lines(transcript)) == 240


def test_a_full_disk_leaves_whole_lines_and_says_so(tmp_path: Path) -> None:
    """The half line is taken back; later writes fail the same way instead of leaving a gap in the chain."""
    code = """
import resource, sys
from pathlib import Path
from agent.broker.redact import Redactor
from agent.broker.transcript import Transcript
from agent.contract.errors import UpstreamError
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
t = Transcript(Path(sys.argv[1]), Redactor({}), lambda: 1.0)
t.write("log", message="fits")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for _ in range(2):
    try:
        t.write("log", message="x" * 5000)
    except UpstreamError as exc:
        print(exc)
"""
    path = tmp_path / "t.jsonl"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "transcript: cannot be written: File too large\n" * 2
    assert verify(path) == []
    assert [event["message"] for event in read(path)] == ["fits"]
    assert resource.RLIMIT_FSIZE


def test_a_killed_writer_leaves_a_valid_transcript(tmp_path: Path) -> None:
    """SIGKILL at any moment: every line but a cut-off last one is whole and chained."""
    code = """
import sys, time
from pathlib import Path
from agent.broker.redact import Redactor
from agent.broker.transcript import Transcript
t = Transcript(Path(sys.argv[1]), Redactor({}), time.time)
while True:
    t.write("log", message="x" * 3000)
    print(flush=True)
"""
    for round_ in range(5):
        path = tmp_path / f"t{round_}.jsonl"
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(3 + round_):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        assert [fault for fault in verify(path) if "cut off" not in fault] == []
        assert len(list(read(path))) >= 3 + round_


def test_what_is_about_to_be_done_is_on_disk_with_all_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outcomes and the harness's events are in the file at once, and synced with the next event that announces."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(os.fstat(fd).st_size))
    transcript = make(tmp_path)
    sizes = []
    for kind, data in (
        ("log", {"message": "ours"}),
        ("agent.note", {"turn": 1, "text": "the harness's"}),
        ("command", {"command": "make"}),
        ("egress.response", {"status": 200}),
        ("egress.request", {"connection": "model", "method": "POST", "path": "/v1/messages"}),
    ):
        transcript.write(kind, **data)
        sizes.append(transcript.path.stat().st_size)

    assert len(lines(transcript)) == 5
    assert synced == [sizes[0], sizes[4]]


def test_all_that_has_an_effect_outside_is_announced_on_disk() -> None:
    """What may wait is told by name: whatever is added to the record is synced until somebody decides otherwise."""
    waits = {name for name, kind in EVENTS.items() if not kind.durable}
    assert waits == HARNESS_TYPES | {"egress.response", "command"}


def test_a_transcript_is_never_written_over(tmp_path: Path) -> None:
    """A second run in the same folder, or a link planted there, is an error and not a loss."""
    path = tmp_path / "transcript.jsonl"
    path.write_text("old")
    with pytest.raises(UserError):
        make(tmp_path)
    assert path.read_text() == "old"
    path.unlink()
    os.symlink(tmp_path / "elsewhere", path)
    with pytest.raises(UserError):
        make(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_closed_is_closed(tmp_path: Path) -> None:
    """After `close` a write fails rather than going to whatever file has that number now."""
    transcript = make(tmp_path)
    transcript.close()
    transcript.close()
    with pytest.raises(UpstreamError):
        transcript.write("log", message="late")


def test_a_transcript_goes_on_where_the_disk_has_room_again_and_never_after_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The half line is cut off, the chain is whole, and what was refused meanwhile is not there."""
    transcript = make(tmp_path)
    transcript.write("log", message="before")
    written = os.write

    def full(fd: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", refuse)
        return written(fd, data[:10])

    def refuse(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    for word in ("lost", "lost too"):
        with pytest.raises(UpstreamError, match="No space left"):
            transcript.write("log", message=word)
    monkeypatch.setattr(os, "write", written)

    assert (transcript.resume(), transcript.resume()) == (True, False)
    transcript.write("log", message="after")
    transcript.close()

    assert not transcript.resume()
    assert [event["message"] for event in lines(transcript)] == ["before", "after"]
    assert verify(transcript.path) == []


def test_the_published_schema_is_the_one_in_force() -> None:
    """The file in the package is made from the table of event types."""
    assert json.loads(SCHEMA.read_text()) == json_schema()
    assert len(EVENTS) > 20


def test_every_event_that_the_code_writes_has_its_type() -> None:
    """A type that nobody declared would end the operation that wrote it."""
    written = {
        name
        for part in ("broker", "harness")
        for path in Path("agent", part).rglob("*.py")
        for name in re.findall(r'\b(?:_?record|_?log|event)\(\s*"([a-z]+\.?[a-z_]*)"[,)]', path.read_text())
    }
    assert {"egress.denied", "tool.result", "hook.end", "run.end"} <= written
    assert written - set(EVENTS) == set()


USAGE = {"input_tokens": 100, "cached_tokens": 60, "output_tokens": 10, "cost": 0.25}


def test_totals_are_sums_over_the_events() -> None:
    """Tokens, money, time by tool, model and hook; denials of every kind; false numbers count as nothing."""
    totals = Totals()
    for kind, data in (
        ("model.response", {"model": "m", "usage": USAGE, "ms": 10.0}),
        ("model.response", {"model": "m", "usage": {**USAGE, "cost": 0.5, "output_tokens": -5}, "ms": float("inf")}),
        ("model.response", {"usage": "none"}),
        ("tool.call", {"name": "grep"}),
        ("tool.result", {"name": "grep", "ms": 4.0, "is_error": True}),
        ("egress.request", {}),
        ("egress.denied", {}),
        ("tool.denied", {}),
        ("hook.end", {"purpose": "stop", "passed": False, "duration_ms": 7}),
    ):
        totals.add(kind, data)
    assert totals.to_json() == {
        "turns": 3, "tool_calls": 1, "input_tokens": 200, "cached_tokens": 120, "output_tokens": 10,
        "egress_requests": 1, "denials": 2, "cost_usd": 0.75,
        "tools": {"grep": {"calls": 1, "errors": 1, "ms": 4.0}},
        "models": {"m": {"calls": 2, "errors": 0, "ms": 10.0}, "model": {"calls": 1, "errors": 0, "ms": 0.0}},
        "hooks": {"stop": {"calls": 1, "errors": 1, "ms": 7.0}},
    }  # fmt: skip
    totals.add("model.response", {"usage": {"cost": None}})
    assert totals.cost_usd is None


CALLS = [{"id": "a", "name": "grep"}, {"id": "b", "name": "read_file"}]


def test_recorded_turns_are_what_a_replay_needs(tmp_path: Path) -> None:
    """Text, calls with their arguments, results in order, tools shown; a call never begun has no arguments."""
    transcript = make(tmp_path)
    transcript.write("agent.rendered", turn=1, tools=["grep", "read_file"])
    transcript.write("model.request", turn=1, messages=2)
    transcript.write("model.response", turn=1, text="look", calls=CALLS, usage=USAGE)
    transcript.write("tool.call", turn=1, id="a", name="grep", arguments={"pattern": "x"}, raw='{"pattern":"x"}')
    transcript.write("tool.result", turn=1, id="a", name="grep", text="none", is_error=False, ms=1)
    transcript.write("agent.rendered", turn=2, tools=["grep"])
    transcript.write("model.response", turn=2, text="done", calls=[], stop="end", model="m")
    one, two = recorded_turns(read(transcript.path))
    assert one.calls == (
        {"id": "a", "name": "grep", "arguments": {"pattern": "x"}, "raw": '{"pattern":"x"}'},
        {"id": "b", "name": "read_file"},
    )
    assert one.results == ({"id": "a", "name": "grep", "text": "none", "is_error": False},)
    assert (one.turn, one.text, one.tools, one.usage) == (1, "look", ("grep", "read_file"), USAGE)
    assert (two.turn, two.text, two.tools, two.stop, two.model, two.calls) == (2, "done", ("grep",), "end", "m", ())


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.dictionaries(st.text(min_size=1, max_size=10), JSONS, max_size=4), min_size=1, max_size=4))
def test_any_fields_give_a_valid_chain(events: list[dict[str, Any]]) -> None:
    """Whatever a harness that is taken over reports, the file stays a transcript."""
    path = Path(f"/dev/shm/airlock-transcript-{os.getpid()}-{time.monotonic_ns()}")
    transcript = Transcript(path, Redactor({"DB": PASSWORD}), time.time)
    try:
        for fields in events:
            transcript.write("model.retry", **{k: v for k, v in fields.items() if k not in ("reason", "attempt")})
        assert [fault for fault in verify(path) if "prev" in fault or "JSON" in fault or "seq" in fault] == []
        assert len(list(read(path))) == len(events)
    finally:
        transcript.close()
        path.unlink()
