"""Trusted-side git: plumbing on a shadow git folder, never a command that walks the work tree.

Reading order: `run` (how git is started), `objects` (bytes of objects, pure), `shadow` (the broker's own
git folder), `snapshot` (workspace to tree), `materialise` (tree to folder), `credentials`, `gitdir`,
`throwaway`, `ownership`, `prepare` (the workspace before and after a run), `protocol` and `fetch` (smart
HTTP), `rules` (what may be pushed, pure), `publish` (Git Data API).
"""
