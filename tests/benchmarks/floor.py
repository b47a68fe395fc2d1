"""The floor of a run: a bare loop on http.client with `sh -c` for each command, and no safety at all.

A program of its own (`python floor.py PORT`), with nothing imported that it does not need.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys


def main(port: int) -> None:
    """Ask, run what is called, append, until no call comes."""
    link = http.client.HTTPConnection("127.0.0.1", port)
    head = b'{"model":"m","max_tokens":4096,"stream":true,"messages":['
    parts = [json.dumps({"role": "user", "content": [{"type": "text", "text": "Do it."}]}).encode()]
    while True:
        link.request("POST", "/v1/messages", head + b",".join(parts) + b"]}", {"content-type": "application/json"})
        call_id, raw = "", ""
        for line in link.getresponse().read().split(b"\n"):
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            if event["type"] == "content_block_start":
                call_id = event["content_block"].get("id", "")
            elif event["type"] == "content_block_delta":
                raw += event["delta"].get("partial_json", "")
        if not call_id:
            return
        arguments = json.loads(raw)
        done = subprocess.run(["sh", "-c", arguments["command"]], capture_output=True, text=True, check=False)
        use = {"type": "tool_use", "id": call_id, "name": "run_command", "input": arguments}
        result = {"type": "tool_result", "tool_use_id": call_id, "content": f"exit {done.returncode}\n{done.stdout}"}
        parts.append(json.dumps({"role": "assistant", "content": [use]}).encode())
        parts.append(json.dumps({"role": "user", "content": [result]}).encode())


if __name__ == "__main__":
    main(int(sys.argv[1]))
