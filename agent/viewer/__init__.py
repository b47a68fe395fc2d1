"""`view`: a transcript as one self-contained page that loads nothing and runs nothing of what it shows."""

from agent.viewer.page import render, write_page

__all__ = ["render", "write_page"]
