"""Request bodies from messages that are encoded once. Pure.

`json.dumps` of a whole history for every turn makes the cost of a turn grow with the run; here a turn costs
what it adds, and request N+1 starts with request N byte for byte (cache marks apart).
"""

from __future__ import annotations

from agent.contract.dataclass import replace
from agent.harness.clients.faults import THOUGHTS
from agent.harness.clients.wire import Settings, Wire
from agent.harness.loop import AssistantMessage, LoopTool, Message, ToolMessage


class Fragments:
    """The encoded history of one run for one model.

    Thoughts are signed or sealed for the model that had them, so that to another one, of the same format too, they are
    an error; and a server may not know its own again. Such turns are told without them. Ids of calls have as many forms
    as there are providers, and some take no other than their own (Anthropic letters, digits, `_` and `-`; OpenAI at
    most 40 characters; Mistral nine letters and digits): another model's calls are told with ids that suit all.
    """

    def __init__(self, wire: Wire, maker: str) -> None:
        """Args:
        maker: `AssistantMessage.wire` of this model's own turns.
        """
        self._wire, self._maker = wire, maker
        self._thoughts = True
        self._foreign: dict[str, str] = {}  # ids of other models' calls, and how they are told
        self._messages: list[Message] = []
        self._items: list[bytes] = []
        self._ends: list[int] = []
        self._head: bytes = b""
        self._head_key: tuple[object, ...] = ()

    def body(
        self,
        settings: Settings,
        system: str,
        tools: tuple[LoopTool, ...],
        messages: tuple[Message, ...],
        max_output: int,
    ) -> bytes:
        """The request's body. Messages that were sent before are not encoded again."""
        if self._thoughts and THOUGHTS in settings.drop:
            self._thoughts = False
            self._messages, self._items, self._ends = [], [], []
        self._take(messages)
        marked = self._wire.marked(self._items, settings)
        head = self._opening(settings, system, tools)
        return b"".join((head, b",".join(marked), self._wire.tail(settings, max_output)))

    def _take(self, messages: tuple[Message, ...]) -> None:
        same = len(self._messages)
        if list(messages[:same]) != self._messages:  # compacted: encode anew from where it differs
            pairs = zip(self._messages, messages, strict=False)
            differs = (index for index, (known, message) in enumerate(pairs) if known != message)
            same = next(differs, min(same, len(messages)))
            del self._messages[same:], self._ends[same:]
            del self._items[self._ends[-1] if self._ends else 0 :]
        for message in messages[same:]:
            self._items.extend(self._wire.items(self._told(message)))
            self._messages.append(message)
            self._ends.append(len(self._items))

    def _told(self, message: Message) -> Message:
        if isinstance(message, ToolMessage):
            ids = self._foreign
            if not ids:
                return message
            return ToolMessage(tuple(replace(r, call_id=ids.get(r.call_id, r.call_id)) for r in message.results))
        if not isinstance(message, AssistantMessage):
            return message
        if message.wire == self._maker:
            return message if self._thoughts else replace(message, blocks=())
        for call in message.calls:
            self._foreign.setdefault(call.id, f"call{len(self._foreign):05}")
        calls = tuple(replace(call, id=self._foreign[call.id]) for call in message.calls)
        return replace(message, calls=calls, blocks=())

    def _opening(self, settings: Settings, system: str, tools: tuple[LoopTool, ...]) -> bytes:
        key = (settings.model, frozenset(settings.drop), system, id(tools))
        if key != self._head_key:
            self._head, self._head_key = self._wire.head(settings, system, tools), key
            self._tools = tools  # kept, so that its id stays its own
        return self._head
