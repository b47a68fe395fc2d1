"""Zone 3: where repository code runs. It sees the workspace and tool chains, no secret, no socket, no network.

Reading order: `policy` (a spec and facts become one plan, pure), `env` (S2), `facts`, then `process` and
`container` (the backends), `session` and `protocol` (how they speak to a helper), `helper.c` (what carries
the plan out; `helper` with `namespaces`, `processes`, `capture`, `orders` and `acts` is its stand-in where
no compiler is), `probe` and `choice` (whether it holds).
"""
