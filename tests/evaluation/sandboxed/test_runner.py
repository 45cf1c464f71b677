"""Failure reports of a kernel runner, and prepared launches."""

from __future__ import annotations

import pytest

from evaluation.sandbox.channel import Message
from evaluation.sandboxed.runner import KernelRunner

NO_FAILURE = {"reason": None}
ADVICE = "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CUDA error: operation not permitted when stream is capturing", "CALL_ERROR"),
        ("CUDA error: device-side assert triggered", "CRASH"),
        ("CUDA error: an illegal memory access was encountered", "CRASH"),
        ("CUDA out of memory. Tried to allocate 100.00 GiB.", "OUT_OF_MEMORY"),
    ],
)
def test_handle_cuda_error_gives_the_reason_of_its_message_not_of_the_advice(
    text: str, reason: str
) -> None:
    class Failing(KernelRunner):
        def do_run(self, request: Message, descriptors: list[int]) -> None:
            raise RuntimeError(f"{text}\n{ADVICE}")

    reply = Failing().handle({"do": "run"}, [])
    assert reply["reason"] == reason
    assert text in reply["message"]


def test_launch_prepared_runs_once_and_explains_its_failure() -> None:
    launched: list[tuple[int, int]] = []

    def launch(first: int, count: int) -> None:
        launched.append((first, count))
        if count == 3:
            raise MemoryError("no more of it")

    runner = KernelRunner()
    runner.launch = launch
    for count, succeeds in ((2, True), (0, True), (3, False)):
        assert runner.handle({"do": "prepare", "first": 5, "count": count}, []) == NO_FAILURE
        assert runner.launch_prepared() is succeeds
        assert runner.prepared is None
    assert launched == [(5, 2), (5, 3)]  # an empty trip launches nothing
    reply = runner.handle({"do": "explain"}, [])
    assert reply == {"reason": "OUT_OF_MEMORY", "message": "out of memory: no more of it"}
