"""Ask for a verdict on this folder's kernel: the `arena-check` of every workspace.

    ./arena-check [--json] [note ...]

Hands the target file in as it stands and prints what each gate said. Each ask is a round. Exit
status: 0 passed, 1 judged and not passed, 2 refused (budget spent, unreadable file), 3 the arena's
fault.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

DOOR = ".door"
ARENA_FAULT = 3


def main(arguments: list[str]) -> int:
    if "-h" in arguments or "--help" in arguments:
        print(__doc__)
        return 0
    as_json = "--json" in arguments
    note = " ".join(word for word in arguments if word != "--json")
    os.chdir(os.path.dirname(os.path.abspath(__file__)))  # a socket's path is short or not at all
    try:
        answer = ask({"op": "check", "note": note})
    except (OSError, ValueError) as error:
        answer = {"exit": ARENA_FAULT, "text": f"the arena does not answer: {error}"}
    print(json.dumps(answer) if as_json else answer["text"])
    return int(answer["exit"])


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Send one request through the door and wait for its answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.connect(DOOR)
        door.sendall(json.dumps(request).encode() + b"\n")
        with door.makefile("rb") as lines:
            line = lines.readline()
    if not line:
        raise ConnectionError("the door was closed; the run is over")
    answer: dict[str, Any] = json.loads(line)
    return answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
