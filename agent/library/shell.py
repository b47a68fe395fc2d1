"""The run's sandbox: probe, hooks, setup, and the sandbox that `run_command` uses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent.broker.git.checkouts import Checkouts
from agent.broker.git.prepare import Prepared
from agent.broker.git.worktree import WorkTree
from agent.broker.lifecycle import Hook, Lifecycle, ended
from agent.broker.state import RunState
from agent.broker.workbench import spec_maker
from agent.contract.sandbox import Purpose
from agent.kernel.passable import make_passable
from agent.library.client import Client
from agent.library.opening import tree_rules
from agent.library.place import Place
from agent.library.sandboxes import LocalSandboxes

OUTPUT_SHOWN = 2000  # bytes of each stream of a setup that failed


def open_sandbox(
    run: RunState,
    place: Place,
    prepared: Prepared,
    client: Client,
    hooks: Mapping[Purpose, Hook],
    sandboxes: LocalSandboxes,
    state: Path,
) -> str:
    """Open everything that runs commands, on `run`; the caller closes `sandboxes`.

    Args:
        state: the run's own folder.

    Returns:
        A sentence where the run may not go on, else the empty text.

    Raises:
        UpstreamError, Refusal: a sandbox could not be started.
    """
    make_spec = spec_maker(prepared, client.sandbox, (), [str(place.folder), str(state)], tree_rules(run.facts))
    spec = make_spec(Purpose.MAIN, str(place.folder))
    hidden = [str(path) for path in (state / "shadow.git", state / "prepare") if path.exists()]
    report = sandboxes.probe(spec, hidden)
    run.record("sandbox.probe", **report.to_json())
    if not report.ok:
        return report.refusal()
    if place.worktree is not None:
        run.lifecycle = _lifecycle(run, place, place.worktree, prepared, client, hooks, sandboxes, state)
        done = run.lifecycle.setup()
        if done is not None and not done.ok:
            output = (done.stdout[-OUTPUT_SHOWN:] + done.stderr[-OUTPUT_SHOWN:]).decode("utf-8", "replace")
            return f"The setup script did not pass ({ended(done)}).\n{output}"
    run.sandbox = sandboxes.start(spec)
    return ""


def _lifecycle(
    run: RunState,
    place: Place,
    worktree: WorkTree,
    prepared: Prepared,
    client: Client,
    hooks: Mapping[Purpose, Hook],
    sandboxes: LocalSandboxes,
    state: Path,
) -> Lifecycle:
    gates = state / "gates"
    make_passable(gates)
    return Lifecycle(
        hooks,
        sandboxes,
        Checkouts(worktree, place.folder, place.owner.uid, place.owner.gid),
        folder=gates,
        workspace=str(place.folder),
        spec=spec_maker(prepared, client.sandbox, (), [str(place.folder), str(state)], tree_rules(run.facts)),
        remaining_s=run.remaining_s,
        record=run.record,
    )
