"""Choice of the lines that the prefetch check probes. Its measurement is tested on a GPU."""

from __future__ import annotations

import torch

from evaluation.bench.anticheat.prefetched_inputs import (
    LINE_BYTES,
    LINES,
    NEXT_SLOTS,
    OTHER_SLOTS,
    lines_in,
    slots_to_probe,
)


def test_slots_behind_the_launches_come_first_and_none_was_launched() -> None:
    launched = range(10, 20)
    for _ in range(20):
        slots = slots_to_probe(launched, 1000)
        assert slots[:NEXT_SLOTS] == [20, 21, 22, 23]
        assert len(set(slots)) == NEXT_SLOTS + OTHER_SLOTS
        assert not set(slots) & set(launched)


def test_a_window_without_other_slots_has_none_to_probe() -> None:
    assert slots_to_probe(range(8), 8) == []
    assert slots_to_probe(range(1, 8), 8) == [0]


def test_lines_lie_inside_the_row_and_differ() -> None:
    row = torch.empty(100 * LINE_BYTES, dtype=torch.uint8)
    lines = lines_in(row)
    begin, end = row.data_ptr(), row.data_ptr() + row.numel()
    assert len(set(lines)) == 2 * LINES
    assert min(lines) >= begin + LINE_BYTES
    assert max(lines) + 2 * LINE_BYTES <= end


def test_a_row_of_two_lines_has_no_line_inside() -> None:
    assert lines_in(torch.empty(2 * LINE_BYTES, dtype=torch.uint8)) == []
    assert lines_in(torch.empty(0, dtype=torch.uint8)) == []
