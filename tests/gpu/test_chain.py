"""Launches of a chain run one after the other, whatever they do with streams and memory."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch

from evaluation.sandboxed.cuda_graph import SerialGraph

pytestmark = pytest.mark.gpu

CYCLES = 200_000
"""Of the GPU's clock, that one kernel spins: about a tenth of a millisecond."""


def milliseconds(call: Callable[[], None]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
    call()
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def test_what_was_captured_runs_in_its_order_at_every_replay() -> None:
    counted, seen = (torch.zeros(8, dtype=torch.int64, device="cuda") for _ in "ab")

    def launch(place: int) -> None:
        counted.add_(1)
        seen[place].copy_(counted[0])

    chain = SerialGraph(functools.partial(launch, place) for place in range(8))
    assert not counted.any(), "a launch ran while it was captured"
    for turn in range(3):
        chain.replay()
        assert seen.tolist() == [8 * turn + place for place in range(1, 9)]


def test_launches_on_streams_of_their_own_run_one_after_the_other() -> None:
    asides = [torch.cuda.Stream() for _ in range(8)]

    def launch(aside: torch.cuda.Stream) -> None:
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            torch.cuda._sleep(CYCLES)
        torch.cuda.current_stream().wait_stream(aside)

    # The least of several: a GPU that was idle has a slower clock at first.
    alone = min(milliseconds(lambda: torch.cuda._sleep(CYCLES)) for _ in range(20))
    chain = SerialGraph(functools.partial(launch, aside) for aside in asides)
    assert milliseconds(chain.replay) > 7 * alone


def test_an_event_of_an_earlier_launch_cannot_be_waited_for() -> None:
    began = torch.cuda.Event()
    aside = torch.cuda.Stream()

    def first() -> None:
        began.record()
        torch.cuda._sleep(CYCLES)

    def second() -> None:
        aside.wait_event(began)
        with torch.cuda.stream(aside):
            torch.cuda._sleep(CYCLES)
        torch.cuda.current_stream().wait_stream(aside)

    with pytest.raises(RuntimeError, match="invalid argument"):
        SerialGraph([first, second])
    torch.cuda.synchronize()


def test_memory_that_launches_allocate_is_used_again_by_the_next() -> None:
    out = torch.zeros(64, 1 << 20, device="cuda")
    before = torch.cuda.memory_reserved()
    chain = SerialGraph(
        functools.partial(lambda row: row.copy_(torch.ones_like(row) + row), row) for row in out
    )
    assert torch.cuda.memory_reserved() - before <= 64 << 20
    chain.replay()
    assert bool((out == 1).all())


def test_what_waits_for_the_gpu_cannot_be_captured_and_harms_nothing_after_it() -> None:
    with pytest.raises(RuntimeError, match="captur"):
        SerialGraph([torch.cuda.synchronize])
    value = torch.zeros((), device="cuda")
    SerialGraph([functools.partial(value.add_, 1)] * 3).replay()
    assert value.item() == 3


def test_a_launch_that_raises_is_told_and_harms_nothing_after_it() -> None:
    def refused() -> None:
        raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        SerialGraph([refused])
    value = torch.zeros((), device="cuda")
    SerialGraph([functools.partial(value.add_, 1)]).replay()
    assert value.item() == 1


def test_what_launches_allocated_goes_with_their_chain() -> None:
    free = torch.cuda.mem_get_info()[0]
    for _ in range(8):
        chain = SerialGraph(
            [lambda: torch.zeros(1 << 28, dtype=torch.uint8, device="cuda").add_(1)]
        )
        chain.replay()
        torch.cuda.synchronize()
        del chain
    assert free - torch.cuda.mem_get_info()[0] < 1 << 29


def test_chains_that_share_a_pool_hold_what_one_of_them_does() -> None:
    size, value = 1 << 28, torch.zeros((), device="cuda")

    def launch() -> None:
        value.add_(torch.ones(size // 4, device="cuda").mul_(2)[-1])

    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, pool = torch.cuda.mem_get_info()[0], torch.cuda.MemPool()
    chains = [SerialGraph([launch] * 2, pool) for _ in range(4)]
    assert size <= free - torch.cuda.mem_get_info()[0] < 1.5 * size
    for chain in chains:
        chain.replay()
    assert value.item() == 16


def test_copies_come_just_before_their_launches() -> None:
    x, sums = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")
    arriving = torch.arange(1.0, 5.0, device="cuda")
    chain = SerialGraph(functools.partial(lambda k: sums[k].copy_(x.sum()), k) for k in range(4))
    copies = [(x[k].data_ptr(), arriving[k].data_ptr(), 4) for k in range(1, 4)]
    chain.with_copies(1, copies).replay()
    assert sums.tolist() == [0, 2, 5, 9]
    chain.replay()
    assert sums.tolist() == [9, 9, 9, 9]
