"""Tests of the sizes of a problem that may vary."""

from __future__ import annotations

import pytest

from evaluation.importers.sandboxed.constants import Constants
from evaluation.importers.sandboxed.forms.kernelbench import KernelBench
from evaluation.importers.sandboxed.generalise import General, Range, generalise
from evaluation.importers.sandboxed.observation import Observed, Unsupported
from tests.evaluation.importers.suite_checkout import SCALED

CONVOLUTION = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, channels, out_channels, groups):
        super().__init__()
        self.conv = nn.Conv1d(channels, out_channels, 5, stride=2, groups=groups)

    def forward(self, x):
        return self.conv(x)

batch = 4
channels = 32
out_channels = 64
groups = 8

def get_inputs():
    return [torch.randn(batch, channels, 128)]

def get_init_inputs():
    return [channels, out_channels, groups]
"""
RECURRENT = """import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, wide, hidden, layers):
        super().__init__()
        self.net = nn.NETWORK(wide, hidden, layers, OPTIONS)

    def forward(self, x, first):
        return self.net(x, first)

steps = 5
batch = 3
wide = 4
hidden = 6
layers = 2
states = WAYS * layers

def get_inputs():
    first = torch.rand(states, batch, hidden)
    return [torch.rand(steps, batch, wide), first]

def get_init_inputs():
    return [wide, hidden, layers]
"""


@pytest.mark.parametrize(
    ("network", "options", "ways"),
    [("GRU", "bidirectional=True", 2), ("RNN", "nonlinearity='relu'", 1), ("RNN", "bias=False", 1)],
)
def test_recurrent_network_without_data_has_the_shapes_of_a_computed_one(network, options, ways):
    source = RECURRENT.replace("NETWORK", network).replace("OPTIONS", options)
    source = source.replace("WAYS", str(ways))
    observed = KernelBench(source).observe({"batch": 7})
    assert observed == KernelBench(source, "cpu").observe({"batch": 7})
    assert observed.outputs == ((5, 7, 6 * ways), (2 * ways, 7, 6))


def test_states_of_an_lstm_without_data_have_the_shapes_of_computed_ones():
    source = RECURRENT.replace("NETWORK", "LSTM").replace("OPTIONS", "proj_size=3")
    source = source.replace("WAYS", "1").replace("self.net(x, first)", "self.net(x)")
    observed = KernelBench(source).observe({})
    assert observed == KernelBench(source, "cpu").observe({})
    assert observed.outputs == ((5, 3, 3), (2, 3, 3), (2, 3, 6))


def test_number_of_layers_is_constant_because_each_has_weights():
    source = RECURRENT.replace("NETWORK", "GRU").replace("OPTIONS", "").replace("WAYS", "1")
    found = generalise(KernelBench(source.replace("states, batch", "layers, batch")), 60)
    assert {"steps", "batch", "wide", "hidden"} <= set(found.ranges)
    assert "layers" not in found.ranges


def test_sizes_of_inputs_and_weights_vary():
    found = generalise(KernelBench(SCALED), 60)
    assert {name: (r.low, r.step) for name, r in found.ranges.items()} == {
        "batch": (1, 1),
        "features": (1, 1),
    }
    assert found.shapes == {"x": ("batch", "features"), "weight": ("features",)}
    assert found.outputs == (("batch", "features"),)


def test_windows_groups_and_literals_are_found():
    found = generalise(KernelBench(CONVOLUTION), 60)
    assert found.ranges["size_1"].low == 5
    assert found.ranges["channels"].step == found.ranges["out_channels"].step == 8
    assert "groups" not in found.ranges
    assert found.outputs == (("batch", "out_channels", "(size_1 - 3) // 2"),)


def test_sizes_that_must_be_equal_vary_together():
    source = SCALED.replace("torch.rand(batch, features)", "torch.rand(batch, width)")
    source = source.replace("features = 96", "features = 96\nwidth = 96")
    found = generalise(KernelBench(source), 60)
    assert found.tied == {"width": "features"}


def test_a_constant_that_the_module_reads_itself_stays():
    source = SCALED.replace("x * self.weight", "x[:batch] * self.weight")
    assert "batch" not in Constants(source).values({"batch": 64, "features": 96})


def test_a_problem_that_does_not_run_is_refused():
    source = SCALED.replace("torch.ones(features)", "torch.ones(features + 1)")
    with pytest.raises(Exception, match="broadcast"):
        KernelBench(source)


def test_a_file_without_inputs_is_refused():
    with pytest.raises(Unsupported, match="get_init_inputs"):
        KernelBench(SCALED.replace("def get_init_inputs", "def other"))


@pytest.mark.parametrize(
    ("published", "step", "low"), [(15, 1, 8), (64, 8, 32), (72, 8, 40), (64, 64, 64)]
)
def test_size_from_half_is_no_smaller_than_half_of_the_published_one(
    published: int, step: int, low: int
) -> None:
    ranges = {"n": Range(step, 4 * published, step)}
    general = General(ranges, {}, {}, (), Observed({}, ()))
    assert general.from_half("n", published).ranges == {"n": Range(low, 4 * published, step)}
    never_smaller = General(
        {"n": Range(published, 4 * published, step)}, {}, {}, (), Observed({}, ())
    )
    assert never_smaller.from_half("n", published) == never_smaller
