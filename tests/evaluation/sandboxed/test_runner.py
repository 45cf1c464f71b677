"""What a contestant says of its own failures."""

from __future__ import annotations

import pytest

from evaluation.process.channel import Message
from evaluation.sandboxed.runner import KernelRunner

SAID = {"reason": None}
ADVICE = "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("CUDA error: operation not permitted when stream is capturing", "CALL_ERROR"),
        ("CUDA error: device-side assert triggered", "CRASH"),
        ("CUDA error: an illegal memory access was encountered", "CRASH"),
        ("CUDA out of memory. Tried to allocate 100.00 GiB.", "OUT_OF_MEMORY"),
    ],
)
def test_an_error_of_cuda_is_told_by_what_it_says_and_not_by_what_pytorch_advises(
    said: str, reason: str
) -> None:
    class Failing(KernelRunner):
        def do_run(self, request: Message, descriptors: list[int]) -> None:
            raise RuntimeError(f"{said}\n{ADVICE}")

    answer = Failing().handle({"do": "run"}, [])
    assert answer["reason"] == reason
    assert said in answer["message"]


def test_what_was_announced_is_launched_once_and_says_why_it_failed() -> None:
    launched: list[tuple[int, int]] = []

    def launch(first: int, count: int) -> None:
        launched.append((first, count))
        if count == 3:
            raise MemoryError("no more of it")

    contestant = KernelRunner()
    contestant.launch = launch
    for count, begun in ((2, True), (0, True), (3, False)):
        assert contestant.handle({"do": "prepare", "first": 5, "count": count}, []) == SAID
        assert contestant.launch_prepared() is begun
        assert contestant.prepared is None
    assert launched == [(5, 2), (5, 3)]  # an empty trip launches nothing
    answer = contestant.handle({"do": "explain"}, [])
    assert answer == {"reason": "OUT_OF_MEMORY", "message": "out of memory: no more of it"}
