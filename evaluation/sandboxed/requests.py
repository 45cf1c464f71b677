"""UNTRUSTED: the handler of the judge's requests that any process has, for a kernel or a task."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any

import torch

from evaluation.bench.memory import cuda_runtime
from evaluation.bench.memory.layout import map_region
from evaluation.errors import SubmissionError, TaskError, line_of
from evaluation.sandbox.channel import Message
from evaluation.types import Reason

_REASON_OF_TEXT = {
    "can't allocate memory": Reason.OUT_OF_MEMORY,
    "out of memory": Reason.OUT_OF_MEMORY,
    "illegal memory access": Reason.CRASH,
    "misaligned address": Reason.CRASH,
    "device-side assert triggered": Reason.CRASH,
    "unspecified launch failure": Reason.CRASH,
}
"""Texts in error messages of CUDA and the system, and the reasons they stand for."""


class RequestHandler:
    """A method `do_<name>` for each request; it gets the message and the descriptors beside it."""

    def __init__(self) -> None:
        self.probe: torch.Tensor | None = None
        """One element on the GPU; None on a CPU."""
        self.opened: dict[str, int] = {}
        """Addresses of the judge's device memory, by IPC handle."""
        self.path = Path("none")
        """The file of the task's code, whose lines errors name."""
        self.report: Any = None
        """Data for the next reply, as untrusted as this process."""

    def handle(self, request: Message, descriptors: list[int]) -> Message:
        """Handle one request. The reply holds the reason and message of any failure."""
        try:
            getattr(self, "do_" + request["do"])(request, descriptors)
        except SubmissionError as error:
            return {"reason": error.reason.value, "message": error.message}
        except TaskError as error:
            return {"reason": Reason.CALL_ERROR.value, "message": str(error)}
        except MemoryError as error:
            return {"reason": Reason.OUT_OF_MEMORY.value, "message": f"out of memory: {error}"}
        except Exception as error:
            lines, text = traceback.format_exc().splitlines(), str(error)
            reasons = (reason for part, reason in _REASON_OF_TEXT.items() if part in text)
            reason = next(reasons, Reason.CALL_ERROR)
            message = line_of(error, self.path) or "\n".join(lines[-12:])
            return {"reason": reason.value, "message": message[-4000:]}
        report, self.report = self.report, None
        return {"reason": None} if report is None else {"reason": None, "report": report}

    def do_connect(self, request: Message, descriptors: list[int]) -> None:
        """On a GPU, open memory of the judge's. Join the other ranks, if there are any."""
        rank, ranks = request["rank"], request["ranks"]
        if request["handle"]:
            torch.cuda.set_device(rank)
            self.probe = cuda_runtime.as_tensor(
                cuda_runtime.open_block(request["handle"]), 1
            ).new_zeros(1)
        if ranks > 1:
            from evaluation.sandboxed.ranks import join

            join(rank, ranks, torch.device("cpu") if self.probe is None else self.probe.device)

    def open_region(self, data: Message, size: int, descriptors: list[int]) -> torch.Tensor:
        """Return a region as a uint8 tensor, by its CUDA IPC handle or the next descriptor."""
        if handle := data.get("handle"):
            if handle not in self.opened:
                self.opened[handle] = cuda_runtime.open_block(handle)
            return cuda_runtime.as_tensor(self.opened[handle], size)
        descriptor = descriptors.pop(0)
        region = map_region(descriptor, size)
        os.close(descriptor)
        return region
