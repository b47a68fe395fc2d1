"""What the broker tells the harness at start: numbers, shas and settings, never third-party words (S1)."""

from __future__ import annotations

from typing import Any, Self

from agent.contract.dataclass import asdict, dataclass, field


@dataclass(frozen=True)
class RunFacts:
    """The run as the harness knows it.

    Attributes:
        mode: exact mode name in force, after the gate.
        event: event name.
        repository: `owner/name`.
        workspace: absolute path of the writable root.
        base_sha: commit that the diff is taken against, or None.
        head_sha: commit that the workspace started at.
        number: pull request or issue number the event is about, or None.
        is_pull_request: the number is a pull request's.
        run_id: failed upstream workflow run, or None.
        tools: names of the built-in and declared tools the model is shown, in order.
        task: text of the task: ours, or the user's input `task`.
        playbook: name of a built-in playbook, or the text of a mode from trusted configuration.
        playbook_is_text: how to read `playbook`.
        max_tool_calls, max_turns, timeout_s, max_tokens: limits; 0 or None is no limit where allowed.
        models: one entry per model in order of preference: `{connection, wire, model, path, query,
            max_output, context, options}` where wire is anthropic, openai-chat or openai-responses.
        branch_prefix: prefix of branches this run may push.
        options: further settings from trusted configuration (verdicts, labels, sizes).
    """

    mode: str
    event: str
    repository: str
    workspace: str
    base_sha: str | None
    head_sha: str | None
    number: int | None
    is_pull_request: bool
    run_id: int | None
    tools: tuple[str, ...]
    task: str
    playbook: str
    playbook_is_text: bool
    max_tool_calls: int
    max_turns: int
    timeout_s: float
    max_tokens: int | None
    models: tuple[dict[str, Any], ...]
    branch_prefix: str
    options: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        values = {k: data[k] for k in cls.__dataclass_fields__ if k in data}
        values["tools"] = tuple(values["tools"])
        values["models"] = tuple(values["models"])
        return cls(**values)
