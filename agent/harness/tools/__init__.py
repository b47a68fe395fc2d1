"""The built-in tools, one family a module. Each module's `TOOLS` lists its own; `belt` makes the loop's of them."""

from agent.contract.tool import AgentTool
from agent.harness.tools import (
    checks,
    git,
    github_read,
    github_request,
    github_write,
    reading,
    request,
    reviews,
    search,
    shell,
    writing,
)

BUILTIN: tuple[AgentTool, ...] = (
    *reading.TOOLS,
    *search.TOOLS,
    *git.TOOLS,
    *request.TOOLS,
    *writing.TOOLS,
    *shell.TOOLS,
    *github_read.TOOLS,
    *github_request.TOOLS,
    *github_write.TOOLS,
    *reviews.TOOLS,
    *checks.TOOLS,
)
