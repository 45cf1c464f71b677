"""MCP server on stdin and stdout for this folder's kernel: the tools check and profile.

    ./arena-mcp

Each tool runs the command of its name beside this file, so its budget and its answer are the same.
While a verdict is awaited, clients that ask for it get a progress notification every ten seconds.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

FOLDER = Path(os.path.abspath(__file__)).parent
PROGRESS_SECONDS = 10.0
INSTRUCTIONS = "Read TASK.md first: it has the task, the calling convention and the budget."

server = MCPServer("arena", instructions=INSTRUCTIONS, log_level="WARNING")


@server.tool(structured_output=False)
async def check(context: Context[Any], note: str = "") -> str:
    """Submit the target file as it is and return the verdict of each gate, with speedups.

    It costs one round of the budget. `note` is kept with the round: say what was changed.
    """
    return await _answer(context, "arena-check", note)


@server.tool(structured_output=False)
async def profile(context: Context[Any], case: str = "") -> str:
    """Return where the time of the last round went, kernel by kernel; it needs a GPU.

    `case` is the name of a seen case, by default the largest.
    """
    return await _answer(context, "arena-profile", case)


async def _answer(context: Context[Any], command: str, text: str) -> str:
    """Run a command of the workspace and return the text of its answer."""
    answers: list[dict[str, Any]] = []
    async with anyio.create_task_group() as group:

        async def run() -> None:
            ended = await anyio.run_process(
                [str(FOLDER / command), "--json", text], cwd=FOLDER, check=False
            )
            try:
                answers.append(json.loads(ended.stdout.splitlines()[-1]))
            except (ValueError, IndexError):
                error = ended.stderr.decode(errors="replace").strip()
                answers.append({"text": f"{command} ended with {ended.returncode}: {error}"})
            group.cancel_scope.cancel()

        group.start_soon(run)
        seconds = 0.0
        while True:
            await anyio.sleep(PROGRESS_SECONDS)
            seconds += PROGRESS_SECONDS
            await context.report_progress(seconds, message=f"{command} waits for its answer")
    return str(answers[0]["text"])


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv[1:]}:
        print(__doc__)
    else:
        server.run("stdio")
