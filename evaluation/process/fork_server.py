"""Where contestants come from. It knows nothing of PyTorch on this side, so that it can be started
before the judge has imported that.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from evaluation.errors import Broken
from evaluation.process.channel import Channel, ChannelError, Message

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0
MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
"""What a contestant's main thread frees stays its own (see mallopt(3)). Else glibc gives large
blocks back after some calls and not after others, from one process to the next, and a launch that
takes 2 ms takes 9 when each page has to come anew.
"""


class ForkServer:
    """A clean process that has imported torch and forks contestants. Started at once, ready a
    second later.
    """

    HOME = "evaluation.sandboxed.runner"
    """The module whose `zygote` it runs."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        code = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r});"
            f"from {self.HOME} import zygote; zygote({theirs.fileno()})"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", code],
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": "/nonexistent",
                "USER": "contestant",  # else libraries look for one, and there may be none
                **MEMORY,
            },
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self._link = Channel(ours)
        self._ready = False

    def fork(self, request: Message, descriptors: Sequence[int]) -> None:
        """Fork one contestant that owns `descriptors` (link, log, status). Raises Broken when the
        zygote is gone.
        """
        try:
            if not self._ready:
                self._link.receive(START_SECONDS)
                self._ready = True
            self._link.send(request, descriptors)
        except ChannelError as error:
            raise Broken(f"the zygote does not answer: {error}") from error

    def prepare(self, language: str) -> None:
        """Have it do once what every contestant of that language would do first; it is not waited
        for. Raises Broken when the zygote is gone.
        """
        try:
            self._link.send({"prepare": language})
        except ChannelError as error:
            raise Broken(f"the zygote does not answer: {error}") from error

    def close(self) -> None:
        self._link.close()
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
