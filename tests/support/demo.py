"""`make demo`: the main job end to end, on an embedded GitHub and a scripted model. No key, no account, no Docker.

Only those two are stand-ins. The product runs as in a job: `entrypoint.py` as a process of its own, three zones,
a real git repository, a real failing test, commands under real kernel confinement, HTTP over sockets.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from agent.local import readable
from tests.support.action import ROOT, Result
from tests.support.github_sim import GitHubSim
from tests.support.model_server import ModelServer
from tests.support.scenario import JOB_ID, RUN_ID, World, fixing_turns, make_world

BRANCH = f"airlock/fix-run-{RUN_ID}"


def main(argv: list[str]) -> int:
    """Run the demo; exit status 0 when the pull request is open and its tests pass."""
    parser = argparse.ArgumentParser(prog="python -m agent demo", description=__doc__)
    parser.add_argument("--folder", type=Path, help="a new folder to keep everything in (default: .demo, made anew)")
    folder = parser.parse_args(argv).folder
    if folder is None:
        folder = ROOT / ".demo"
        shutil.rmtree(folder, ignore_errors=True)
    elif folder.exists():
        print(f"airlock demo: {folder} exists. Name a new folder.", file=sys.stderr)
        return 2
    folder = folder.resolve()
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    started = time.monotonic()
    say("Airlock demo", "=")
    print(
        "The model is SCRIPTED and GitHub is EMBEDDED: both run on this machine, nothing leaves it.\n"
        "Everything else is the real thing: the same entrypoint, broker, harness, sandbox and gates as in a job."
    )
    with GitHubSim(folder / "github") as github:
        world = make_world(folder, github)
        say("What came in")
        print(
            f"A push to main of {world.repository.full_name} failed its CI: run {RUN_ID}, job {JOB_ID} (test).\n"
            f"GitHub delivers the event workflow_run. Checked out: {world.head[:12]}.\n"
            "What the job printed:"
        )
        for line in world.log.splitlines():
            print(f"  | {line.partition(' ')[2]}")
        with ModelServer(fixing_turns(BRANCH)) as model:
            say("The job's log")
            event = github.event("workflow_run", world.repository, run=RUN_ID)
            result = world.run("workflow_run", event, model, on_line=lambda line: print(f"  {readable(line)}"))
        account(world, result)
    ok = result.exit_status == 0 and world.repository.branch(BRANCH) is not None
    say(f"Done in {time.monotonic() - started:.1f} s" if ok else "The demo FAILED", "=")
    if not ok:
        print(result.stderr[-3000:], file=sys.stderr)
    return 0 if ok else 1


def account(world: World, result: Result) -> None:
    """Tell what happened, from the transcript and from what GitHub now holds."""
    for gate in result.events("gate.decision"):
        say("Who was allowed what")
        print(f"mode {gate['mode']}; the strongest that these facts allow is {gate['ceiling']}:")
        for fact in gate["actors"]:
            print(f"  {fact['about']}: {fact['reason']}")
    for probe in result.events("sandbox.probe"):
        items = probe["items"]
        print(
            f"Sandbox (backend {probe['backend']}): it was asked to do {len(items)} forbidden things (read a secret, "
            f"reach the network, look into the broker, ...); {sum(i['held'] for i in items)} were refused."
        )
    say("Each turn")
    for event in result.transcript:
        show(event)
    say("The gates")
    for hook in result.events("hook.end"):
        verdict = "passed" if hook["passed"] else "FAILED"
        print(f"{hook['purpose']}: {verdict} ({hook['ended']}) on tree {hook['tree'][:12]}")
    say("The pull request")
    for pull in world.repository.pulls():
        assert pull.pull is not None
        print(f"#{pull.number} {pull.title}  ({pull.pull.head_ref} -> {pull.pull.base_ref})\n")
        print(world.repository.git.run("diff", pull.pull.base_sha, pull.pull.head_sha).decode())
    secrets = [world.token, world.api_key]
    leaked = [n for n, data in result.files.items() for s in secrets if s.encode() in data]
    say("Where to look")
    print(f"exit status   {result.exit_status}, outcome {result.outputs.get('outcome')}")
    print(f"transcript    {result.results / 'transcript.jsonl'}  ({len(result.transcript)} events)")
    print(f"  as a page   {result.results / 'transcript.html'}")
    print(f"summary       {result.results / 'summary.md'}")
    print(
        f"tokens        {result.outputs.get('input-tokens')} in, {result.outputs.get('output-tokens')} out (scripted)"
    )
    print("secrets       the job held a GitHub token and a model key; files of the results that hold one: ", end="")
    print(", ".join(leaked) if leaked else "none")
    print("(GitHub was embedded and is gone now, so links to it are dead.)")


def show(event: dict[str, Any]) -> None:
    """One line for an event that a reader wants to see."""
    kind = event["type"]
    if kind == "model.response" and event.get("text"):
        print(f"{event['turn']:>3}  model    {event['text']}")
    elif kind == "tool.call":
        print(f"{event.get('turn', 0):>3}  call     {event['name']} {shortened(str(event.get('arguments')), 150)}")
    elif kind == "command":
        print(f"     sandbox  exit status {event['exit_code']} after {event['duration_ms']:.0f} ms")
    elif kind == "git.commit":
        print(f"     commit   {', '.join(f['path'] for f in event['files'])}")
    elif kind == "git.push":
        print(f"     push     {event['branch']} at {event['sha'][:12]}")
    elif kind == "pull_request":
        print(f"     pull     {event['url']}")
    elif kind.endswith(".denied"):
        print(f"     refused  {event.get('code')}")


def shortened(text: str, most: int) -> str:
    """The text, with a sign where it was cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


def say(title: str, rule: str = "-") -> None:
    """A heading."""
    print(f"\n{title}\n{rule * len(title)}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
