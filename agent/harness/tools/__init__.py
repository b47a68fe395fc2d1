"""The built-in tools, one family a module. Each module's `TOOLS` lists its own; `belt` makes the loop's of them."""

from agent.contract.tool import AgentTool
from agent.harness.tools import git, reading, request, search, shell, writing

BUILTIN: tuple[AgentTool, ...] = (
    *reading.TOOLS,
    *search.TOOLS,
    *git.TOOLS,
    *request.TOOLS,
    *writing.TOOLS,
    *shell.TOOLS,
)
