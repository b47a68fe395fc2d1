"""What a run leaves for people and for the workflow: log, summary, comment, outputs, results folder.

Everything here is written after redaction and neutralised: the words of models and third parties reach
readers as text, never as a command, a mention or a page element.
"""
