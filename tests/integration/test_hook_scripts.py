"""The scripts that judge a change cannot be changed by it, by any way (E14)."""

from __future__ import annotations

from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import World


def test_a_hooks_script_is_protected_in_the_manifest_by_the_tools_and_at_the_push(world: World) -> None:
    """`stopScript: sh scripts/check.sh` protects that file and no other; another file is written as ever.

    A command finds it read-only; what a command can change all the same, since it was not there, the push refuses.
    """
    repo = world.repository
    number = repo.create_issue("Discount", "It is wrong.").number
    repo.add_comment(number, "/airlock implement make the check pass", "maintainer")
    event = world.github.event("issue_comment", repo, number=number)
    refs = repo.refs()
    path = "scripts/check.sh"
    spelled_otherwise = "mkdir -p .GitHub/workflows && echo 'on: push' > .GitHub/workflows/x.yml"
    turns = [
        Turn(calls=[Call("write_file", {"path": path, "content": "exit 0\n"})]),
        Turn(calls=[Call("edit_file", {"path": path, "old": "exec", "new": "true"})]),
        Turn(calls=[Call("delete_file", {"path": path})]),
        Turn(calls=[Call("run_command", {"command": f"echo 'exit 0' > {path}; cat {path}; {spelled_otherwise}"})]),
        Turn(calls=[Call("git_commit", {"message": "Pass"})]),
        Turn(calls=[Call("git_push", {"branch": "airlock/pass"})]),
        Turn(calls=[Call("write_file", {"path": "scripts/other.sh", "content": "exit 0\n"})]),
        Turn(text="Done."),
        Turn(text="Done."),
        Turn(text="Done."),
    ]
    with ModelServer(turns) as model:
        result = world.run("issue_comment", event, model)

    (manifest,) = result.events("manifest")
    protected = manifest["document"]["protectedPaths"]
    assert path in protected
    assert not {"sh", "scripts"} & set(protected)
    results = result.events("tool.result")
    assert [r["is_error"] for r in results] == [True, True, True, False, True, True, False]
    for refused in results[:3]:
        assert "protected_path" in refused["text"]
    (probe,) = result.events("sandbox.probe")
    covered = not any("protected paths can be written" in lack for lack in probe["missing"])
    assert ("Read-only file system" in results[3]["text"]) == covered
    for refused in results[4:6]:
        assert "push_protected_path" in refused["text"]
    assert repo.refs() == refs
    assert result.outputs["stop-reason"] == "not_verified", "the base branch's script judged, not the change's"


def test_a_script_on_a_branch_of_ours_judges_nothing(world: World) -> None:
    """A pull request can be based on a branch that an earlier run wrote; the scripts come from the default branch.

    The same files on a branch of a person's are taken: what differs is who can have written them.
    """
    repo = world.repository
    stops: dict[str, str] = {}
    for base in ("airlock/earlier", "release/1"):
        repo.create_branch(base, "main")
        repo.commit(base, {"scripts/check.sh": "exit 0\n"}, "Pass")
        repo.create_branch(f"topic-{base[0]}", base)
        repo.commit(f"topic-{base[0]}", {f"{base[0]}.txt": "x\n"}, "Add")
        number = repo.create_pull(f"topic-{base[0]}", base=base).number
        repo.add_comment(number, "/airlock implement nothing, it is done", "maintainer")
        event = world.github.event("issue_comment", repo, number=number)
        with ModelServer([Turn(text="Done.")] * 4) as model:
            result = world.run("issue_comment", event, model)
        stops[base] = result.outputs["stop-reason"]

    assert stops == {"airlock/earlier": "not_verified", "release/1": "completed"}
