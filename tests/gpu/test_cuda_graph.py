"""Serial graphs: launches run one after the other, with any use of streams and memory."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import pytest
import torch

from evaluation.sandboxed import graph_kernels
from evaluation.sandboxed.cuda_graph import SerialGraph

pytestmark = pytest.mark.gpu

CYCLES = 200_000
"""Clock cycles of one spinning kernel: about 0.1 ms."""


def milliseconds(call: Callable[[], None]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
    call()
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def test_replays_run_launches_in_order() -> None:
    count, seen = (torch.zeros(8, dtype=torch.int64, device="cuda") for _ in "ab")

    def launch(index: int) -> None:
        count.add_(1)
        seen[index].copy_(count[0])

    graph = SerialGraph(functools.partial(launch, index) for index in range(8))
    assert not count.any(), "a launch ran while it was captured"
    for turn in range(3):
        graph.replay()
        assert seen.tolist() == [8 * turn + index for index in range(1, 9)]


def test_kernels_of_a_library_show_in_a_captured_graph() -> None:
    one, two, out = (torch.ones(256, 256, device="cuda") for _ in range(3))
    found: list[set[str]] = []

    def names(graph: ctypes.c_void_p) -> None:
        found.append(graph_kernels.kernel_names(graph))

    torch.mm(one, two, out=out)  # set-up happens before a capture
    SerialGraph([lambda: torch.mm(one, two, out=out), out.zero_], check=names)
    product, fill = found
    assert graph_kernels.foreign(product, {"mm"}) == sorted(product) != []
    assert graph_kernels.foreign(fill, {"mm"}) == []


def test_launches_on_own_streams_run_serially() -> None:
    streams = [torch.cuda.Stream() for _ in range(8)]

    def launch(stream: torch.cuda.Stream) -> None:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(CYCLES)
        torch.cuda.current_stream().wait_stream(stream)

    # The minimum of several: an idle GPU starts with a slower clock.
    alone = min(milliseconds(lambda: torch.cuda._sleep(CYCLES)) for _ in range(20))
    graph = SerialGraph(functools.partial(launch, stream) for stream in streams)
    assert milliseconds(graph.replay) > 7 * alone


def test_wait_for_event_of_earlier_launch_raises() -> None:
    began = torch.cuda.Event()
    stream = torch.cuda.Stream()

    def first() -> None:
        began.record()
        torch.cuda._sleep(CYCLES)

    def second() -> None:
        stream.wait_event(began)
        with torch.cuda.stream(stream):
            torch.cuda._sleep(CYCLES)
        torch.cuda.current_stream().wait_stream(stream)

    with pytest.raises(RuntimeError, match="invalid argument"):
        SerialGraph([first, second])
    torch.cuda.synchronize()


def test_memory_of_launches_is_reused_by_the_next() -> None:
    out = torch.zeros(64, 1 << 20, device="cuda")
    before = torch.cuda.memory_reserved()
    graph = SerialGraph(
        functools.partial(lambda row: row.copy_(torch.ones_like(row) + row), row) for row in out
    )
    assert torch.cuda.memory_reserved() - before <= 64 << 20
    graph.replay()
    assert bool((out == 1).all())


def test_synchronizing_launch_raises_and_later_graphs_work() -> None:
    with pytest.raises(RuntimeError, match="captur"):
        SerialGraph([torch.cuda.synchronize])
    value = torch.zeros((), device="cuda")
    SerialGraph([functools.partial(value.add_, 1)] * 3).replay()
    assert value.item() == 3


def test_raising_launch_propagates_and_later_graphs_work() -> None:
    def refused() -> None:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        SerialGraph([refused])
    value = torch.zeros((), device="cuda")
    SerialGraph([functools.partial(value.add_, 1)]).replay()
    assert value.item() == 1


def test_deleted_graph_frees_memory_of_launches() -> None:
    free = torch.cuda.mem_get_info()[0]
    for _ in range(8):
        graph = SerialGraph(
            [lambda: torch.zeros(1 << 28, dtype=torch.uint8, device="cuda").add_(1)]
        )
        graph.replay()
        torch.cuda.synchronize()
        del graph
    assert free - torch.cuda.mem_get_info()[0] < 1 << 29


def test_graphs_with_shared_pool_hold_the_memory_of_one() -> None:
    size, value = 1 << 28, torch.zeros((), device="cuda")

    def launch() -> None:
        value.add_(torch.ones(size // 4, device="cuda").mul_(2)[-1])

    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, pool = torch.cuda.mem_get_info()[0], torch.cuda.MemPool()
    graphs = [SerialGraph([launch] * 2, pool) for _ in range(4)]
    assert size <= free - torch.cuda.mem_get_info()[0] < 1.5 * size
    for graph in graphs:
        graph.replay()
    assert value.item() == 16


def test_copies_run_just_before_their_launches() -> None:
    x, sums = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")
    arriving = torch.arange(1.0, 5.0, device="cuda")
    graph = SerialGraph(functools.partial(lambda k: sums[k].copy_(x.sum()), k) for k in range(4))
    copies = [(x[k].data_ptr(), arriving[k].data_ptr(), 4) for k in range(1, 4)]
    graph.with_copies(1, copies).replay()
    assert sums.tolist() == [0, 2, 5, 9]
    graph.replay()
    assert sums.tolist() == [9, 9, 9, 9]
