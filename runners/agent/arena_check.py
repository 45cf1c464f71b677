"""Ask about this folder's kernel: the `arena-check` and `arena-profile` of every workspace.

    ./arena-check [--json] [note ...]
    ./arena-profile [--json] [CASE]

arena-check hands the target file in as it stands and prints what each gate said. Each ask is a
round. arena-profile tells where the time of the last round's kernels goes, on a seen case, the
largest unless one is named; it costs no round, and a run has only so many. Exit status: 0 passed or
profiled, 1 not so, 2 refused (budget spent, unreadable file), 3 the arena's fault.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

DOOR = ".door"
PROFILE = "arena-profile"
ARENA_FAULT = 3


def main(arguments: list[str]) -> int:
    if "-h" in arguments or "--help" in arguments:
        print(__doc__)
        return 0
    as_json = "--json" in arguments
    text = " ".join(word for word in arguments if word != "--json")
    profile = os.path.basename(sys.argv[0]) == PROFILE
    request = {"op": "profile", "case": text} if profile else {"op": "check", "note": text}
    os.chdir(os.path.dirname(os.path.abspath(__file__)))  # a socket's path is short or not at all
    try:
        answer = ask(request)
    except (OSError, ValueError) as error:
        answer = {"exit": ARENA_FAULT, "text": f"the arena does not answer: {error}"}
    print(json.dumps(answer) if as_json else answer["text"])
    return int(answer["exit"])


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Send one request through the control socket and wait for its answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control_socket:
        control_socket.connect(DOOR)
        control_socket.sendall(json.dumps(request).encode() + b"\n")
        with control_socket.makefile("rb") as lines:
            line = lines.readline()
    if not line:
        raise ConnectionError("the door was closed; the run is over")
    answer: dict[str, Any] = json.loads(line)
    return answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
