"""The job log: nothing untrusted starts a workflow command or moves a cursor, on either stream (R15)."""

from __future__ import annotations

import io
import random
import re
import sys
import threading
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.broker.redact import Redactor
from agent.broker.report.log import Log, duration
from agent.broker.report.plain import inert, one_line, visible
from tests.support import make_corpus, oracles

OURS = ("group", "endgroup", "error", "warning", "notice")
PASSWORD = "Zx81-kq77-51c0ffee"


class Streams:
    def __init__(self, *, secrets: dict[str, str] | None = None, actions: bool = True) -> None:
        self.raw_out, self.raw_err = io.BytesIO(), io.BytesIO()
        self.log = Log(self.raw_out, self.raw_err, Redactor(secrets or {}), actions=actions)

    @property
    def out(self) -> str:
        return self.raw_out.getvalue().decode()

    @property
    def err(self) -> str:
        return self.raw_err.getvalue().decode()


COMMANDS = (
    "::set-env name=NODE_OPTIONS::--require=/x.js", "::add-path::/github/workspace/bin", "::add-mask::e",
    "::stop-commands::tok", "::error file=a.py,line=1::boom", "::set-output name=x::y", "::save-state name=x::y",
    "   ::warning::indented", "\t::debug::tab", "ok\r::error::after-cr", "ok\r\n::error::after-crlf",
    "\ufeff::error::after-bom", "\u200b::debug::zero width", "\u2028::error::x", "\x85::error::x", "\x0b::error::x",
    "\xa0\u3000::error::wide blanks", "\x1c::error::x", "\x00::error::x", "\u202e::error::x", "\xad::error::x",
    "mid ##[set-env name=A]b", "##[add-mask]e", "###[error]x", "####[error]x", "##vso[task.setvariable variable=A]b",
    "##VSO[x]y", "%0A::set-env name=A::b", "a%0D%0A::error::x", "::SET-ENV name=A::b", "::Stop-Commands::x",
    "\x1b[31m::error::x", "::::error::x", ":::error::x", "\u180e::error::x", "\U000e0020::error::x",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_in_untrusted_text_is_text(command: str) -> None:
    """Every form that a runner takes, on both streams, as a line, a title, a message and a file's name."""
    streams = Streams()
    streams.log.line(command)
    streams.log.error_line(command)
    streams.log.group(command)
    streams.log.annotate("error", command, title=command, file=command, line=3)
    for text in (streams.out, streams.err):
        assert oracles.workflow_commands(text, allowed=OURS) == []
        assert oracles.terminal_escapes(text) == []
        assert "##[" not in text
    mine = [line for line in streams.out.splitlines() if line.startswith("::")]
    assert [re.match(r"::([a-z]+)", line)[1] for line in mine] == ["group", "endgroup", "error"]  # type: ignore[index]
    assert streams.err


def test_ordinary_text_with_colons_is_left_as_it_is() -> None:
    """The control of R15, and what compilers and addresses look like."""
    text = "std::vector<int>::iterator at 10::20\n# heading\n#[derive]\n\tuse a::b;\nnaïve café 中文 🎉\n100%0A"
    streams = Streams()
    streams.log.line(text)
    assert streams.out == text + "\n"


HOSTILE = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("::##[]\r\n\t \ufeff\u200b\u2028\x85\xa0\x1b%0Aabc"),
        st.sampled_from("errogstp-cmandv"),
    ),
    max_size=60,
)
PIECES = st.lists(st.one_of(HOSTILE, st.sampled_from(COMMANDS)), max_size=4).map("".join)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["line", "error", "group", "turn", "note"]), PIECES), max_size=5))
def test_no_sequence_of_untrusted_texts_makes_a_command(acts: list[tuple[str, str]]) -> None:
    """Random text mixed with the pieces of commands, through every door of the log."""
    streams = Streams()
    for door, text in acts:
        if door == "line":
            streams.log.line(text)
        elif door == "error":
            streams.log.error_line(text)
        elif door == "group":
            streams.log.group(text)
        elif door == "turn":
            streams.log.turn(1, calls=2, tokens=3, cost_usd=None, left_s=4)
        else:
            streams.log.annotate("notice", text, title=text, file=text)
    for text in (streams.out, streams.err):
        assert oracles.workflow_commands(text, allowed=OURS) == []
        assert oracles.terminal_escapes(text) == []
    assert len([line for line in streams.out.split("\n") if line.startswith("::group::")]) == sum(
        door in ("group", "turn") for door, _ in acts
    )


def test_every_control_and_format_character_is_shown() -> None:
    """The table of unseen characters is complete for the Unicode version of this Python."""
    left = [
        f"U+{code:04X}"
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp", "Cs") and visible(chr(code)) == chr(code)
    ]
    assert left == ["U+0009", "U+000A"]


def test_the_two_streams_never_join_into_a_command() -> None:
    """Threads write whole lines: half a command from one and half from another stay apart."""
    streams = Streams()

    def work(text: str) -> None:
        for _ in range(200):
            streams.log.line(text)

    threads = [threading.Thread(target=work, args=(t,)) for t in ("::set", "-env name=A::b", "x\r")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert oracles.workflow_commands(streams.out) == []
    assert set(streams.out.splitlines()) == {": :set", "-env name=A::b", "x"}


def test_secrets_and_credentials_are_redacted_in_every_door() -> None:
    """A known value and one known by its shape, also when it stands in a file name or a title."""
    token = make_corpus.value(random.Random(3), "github-app-short")
    streams = Streams(secrets={"DB": PASSWORD})
    text = f"{PASSWORD} and {token}"
    streams.log.line(text)
    streams.log.error_line(text)
    streams.log.group(text)
    streams.log.annotate("error", text, title=text, file=f"a/{PASSWORD}.py")
    for shown in (streams.out, streams.err):
        assert PASSWORD not in shown
        assert token not in shown
        assert "[redacted:DB] and [redacted:github-token]" in shown


def test_groups_open_and_close_in_turn() -> None:
    """One turn a group with a progress line; an annotation is outside of groups, where it is seen."""
    streams = Streams()
    streams.log.turn(1, calls=3, tokens=12345, cost_usd=0.5, left_s=600, max_calls=60)
    streams.log.line("read_file a.py")
    streams.log.turn(2, calls=4, tokens=22345, cost_usd=None, left_s=50)
    streams.log.annotate("error", "it failed: 50%\nsecond line", title="a: b, c", file="src/a.py", line=7)
    streams.log.end_group()
    assert streams.out == (
        "::group::Turn 1 · 3/60 calls · 12,345 tokens · $0.50 · 10 min left\n"
        "read_file a.py\n"
        "::endgroup::\n"
        "::group::Turn 2 · 4 calls · 22,345 tokens · 50 s left\n"
        "::endgroup::\n"
        "::error title=a%3A b%2C c,file=src/a.py,line=7::it failed: 50%25%0Asecond line\n"
    )


def test_without_a_runner_no_command_is_written() -> None:
    """In a terminal groups and annotations are plain lines, and nothing is masked by printing it."""
    streams = Streams(actions=False)
    streams.log.turn(1, calls=1, tokens=2, cost_usd=None, left_s=3)
    streams.log.annotate("error", "boom\n::set-env name=A::b")
    streams.log.mask(PASSWORD)
    assert streams.out == "--- Turn 1 · 1 calls · 2 tokens · 3 s left\n"
    assert streams.err == "error: boom\n: :set-env name=A::b\n"


def test_a_short_or_common_value_is_not_masked() -> None:
    """`add-mask` of one letter blanks the whole log; a minted token is masked whole."""
    streams = Streams()
    for value in ("", "e", "password", "abc\0defgh"):
        streams.log.mask(value)
    streams.log.mask("50%-of-51c0ffee\nline")
    assert streams.out == "::add-mask::50%25-of-51c0ffee%0Aline\n"


def test_a_reader_that_went_away_does_not_end_the_run() -> None:
    """A closed stream is no error of ours."""
    streams = Streams()
    streams.raw_out.close()
    streams.log.line("x")
    streams.log.error_line("y")
    assert streams.err == "y\n"


def test_another_level_is_a_mistake_of_the_caller() -> None:
    """Nothing but the three annotations may be made here."""
    with pytest.raises(ValueError):
        Streams().log.annotate("set-env name=A", "b")


def test_long_lines_are_cut_and_say_so() -> None:
    """A minified file in one line does not fill the log."""
    streams = Streams()
    streams.log.line("x" * 10_000)
    assert streams.out == "x" * 4000 + " [6000 more characters]\n"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_making_text_inert_twice_changes_nothing(text: str) -> None:
    """Text may pass two writers."""
    assert inert(inert(text)) == inert(text)
    assert "\n" not in one_line(text)


@pytest.mark.parametrize(("seconds", "words"), [(-3, "0 s"), (45, "45 s"), (720, "12 min"), (3900, "1 h 5 min")])
def test_durations_in_words(seconds: float, words: str) -> None:
    """As people say them."""
    assert duration(seconds) == words
