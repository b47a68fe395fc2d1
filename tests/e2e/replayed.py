"""Every run of these tests is played again from its transcript: the loop and the file tools do the same once more."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.broker.transcript import read
from agent.contract.recorded import recorded_turns
from agent.replay import replay

_RUNS: list[tuple[Path, Path]] = []


def begin(workspace: Path, folder: Path) -> Callable[[Path], None]:
    """Keep the files that a run begins with; what is given back is told the run's transcript."""
    before = Path(tempfile.mkdtemp(prefix="before-", dir=folder))
    shutil.copytree(workspace, before, symlinks=True, ignore=shutil.ignore_patterns(".git"), dirs_exist_ok=True)
    return lambda transcript: _RUNS.append((transcript, before))


@pytest.fixture(autouse=True)
def every_transcript_replays(tmp_path: Path) -> Iterator[None]:
    """No divergence and an unbroken chain, whatever became of the run; one without a turn has nothing to replay."""
    _RUNS.clear()
    yield
    assert tmp_path.is_dir()
    for transcript, before in _RUNS:
        if transcript.exists() and list(recorded_turns(list(read(transcript)))):
            done = replay(transcript, before)
            assert (done.divergence, done.faults) == (None, []), done
