"""The judge's handle on the fork server, from which all candidate and baseline processes come.

It imports no PyTorch, so that the fork server can start while the judge imports that.
"""

from __future__ import annotations

import ctypes
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from evaluation.code.languages import languages
from evaluation.device_kind import CPU, GPU
from evaluation.errors import Broken
from evaluation.sandbox.channel import Channel, ChannelError, Message

C = TypeVar("C", bound="Closeable")
ROOT = Path(__file__).resolve().parents[3]
MAX_START_SECONDS = 120.0
COMPILERS = {GPU: ("triton", "torch"), CPU: ("torch",)}
"""Languages whose compilers are imported before a fork. PyTorch's imports Triton, and has it
interpret kernels where there is no GPU.
"""
ALLOCATOR_ENVIRONMENT = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
}
"""Keeps freed memory in the process (see mallopt(3)).

Otherwise glibc returns large blocks to the kernel after some calls and not after others. A launch
of 2 ms takes 9 ms when each page must be mapped again.
"""
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h


class Closeable(Protocol):
    def close(self) -> None: ...


def keep_freed_memory() -> None:
    """Keep freed memory in this process, as ALLOCATOR_ENVIRONMENT does in one that starts.

    Expected values of large tensors take a third of the time so. Without glibc, nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


class ForkServer:
    """A process that has imported PyTorch and forks on request. It is ready about a second later.

    Of the judge's environment it has the folder for temporary files alone. It and the judge keep
    the memory that they free.
    """

    MODULE = "evaluation.sandboxed.main"
    """The module whose `serve_forks` it runs."""

    def __init__(self) -> None:
        keep_freed_memory()
        ours, theirs = socket.socketpair()
        code = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r});"
            f"from {self.MODULE} import serve_forks; serve_forks({theirs.fileno()})"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", code],
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": "/nonexistent",
                "USER": "candidate",  # libraries ask for a name, and there may be none
                "TMPDIR": tempfile.gettempdir(),  # PyTorch's compiler makes a folder in it
                **ALLOCATOR_ENVIRONMENT,
            },
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self._channel = Channel(ours)
        self._lock = threading.Lock()
        self._ready = False
        self._attached: dict[object, Any] = {}
        self._imported: set[str] = set()

    def fork(self, request: Message, descriptors: Sequence[int]) -> None:
        """Fork a process that owns three descriptors: its channel, log and status.

        Raises: Broken when the fork server is gone.
        """
        with self._lock:
            if not self._ready:
                self._exchange(lambda: self._channel.receive(MAX_START_SECONDS))
                self._ready = True
            self._exchange(lambda: self._channel.send(request, descriptors))

    def prepare(self, language: str) -> None:
        """Ask it to import, once, what each process of a language needs; return at once.

        Raises: Broken when the fork server is gone.
        """
        with self._lock:
            self._exchange(lambda: self._channel.send({"prepare": languages()[language].loader}))

    def prepare_compilers(self, kind: str, among: Collection[str] | None = None) -> None:
        """Prepare the compilers for a kind of device, or those `among` some languages."""
        for language in COMPILERS[kind]:
            if among is None or language in among:
                self.prepare(language)

    def import_modules(self, names: Sequence[str]) -> None:
        """Ask it to import modules for later forks, once; return at once.

        Raises: Broken when the fork server is gone.
        """
        with self._lock:
            if new := [name for name in names if name not in self._imported]:
                self._exchange(lambda: self._channel.send({"import": new}))
                self._imported.update(new)

    def attached(self, make: Callable[[Self], C]) -> C:
        """Return what `make` makes with this server; it is made once, and closed with it."""
        with self._lock:
            if make not in self._attached:
                self._attached[make] = make(self)
            found: C = self._attached[make]
            return found

    def _exchange(self, call: Callable[[], object]) -> None:
        try:
            call()
        except ChannelError as error:
            raise Broken(f"the fork server does not reply: {error}") from error

    def close(self) -> None:
        for each in self._attached.values():
            each.close()
        self._channel.close()
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
