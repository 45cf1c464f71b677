"""Request a verdict or a profile of this folder's kernel.

    ./arena-check [--json] [note ...]
    ./arena-profile [--json] [CASE]

arena-check submits the target file as it is and prints the result of each gate. Each request is a
round. arena-profile shows the time of each kernel of the last round on a seen case, by default the
largest. It costs no round, but the profiles of a run are limited too.

Exit status: 0 passed or profiled, 1 not so, 2 refused (budget spent, unreadable file), 3 failure of
the arena.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

SOCKET_NAME = ".arena-socket"
PROFILE = "arena-profile"
ARENA_FAULT = 3
INCONCLUSIVE = "inconclusive"
"""`verdict` of an answer with ARENA_FAULT where the same source can be submitted again."""


def main(arguments: list[str]) -> int:
    """Send the request of the command line, print its answer and return the exit status."""
    if "-h" in arguments or "--help" in arguments:
        print(__doc__)
        return 0
    as_json = "--json" in arguments
    text = " ".join(word for word in arguments if word != "--json")
    profile = os.path.basename(sys.argv[0]) == PROFILE
    request = {"op": "profile", "case": text} if profile else {"op": "check", "note": text}
    os.chdir(os.path.dirname(os.path.abspath(__file__)))  # the path of a socket must be short
    try:
        answer = send(request)
    except (OSError, ValueError) as error:
        answer = {"exit": ARENA_FAULT, "text": f"the arena does not answer: {error}"}
    print(json.dumps(answer) if as_json else answer["text"])
    return int(answer["exit"])


def send(request: dict[str, Any]) -> dict[str, Any]:
    """Send one request to the control socket and wait for its answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control_socket:
        control_socket.connect(SOCKET_NAME)
        control_socket.sendall(json.dumps(request).encode() + b"\n")
        with control_socket.makefile("rb") as lines:
            line = lines.readline()
    if not line:
        raise ConnectionError("the control socket is closed; the run is over")
    answer: dict[str, Any] = json.loads(line)
    return answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
