"""Live models: probed, decoded with a cache, and changed by each mutant."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch

from evaluation.device_kind import CPU
from evaluation.kinds.module import budget, fit, probe
from evaluation.kinds.module.architectures import architectures, merged
from evaluation.kinds.module.limits import Ratios
from evaluation.sandboxed.model import models
from evaluation.sandboxed.model.models import ModelData
from tests.conftest import skip_or_fail

NAME = "mixtral"
MAX_DECODE_ERROR = 1e-4
"""Largest relative difference of a cached step from the uncached forward, in float32."""


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    if why := architectures()[NAME].missing():
        skip_or_fail(why)


def test_probe_finds_a_finite_model_that_decodes_and_rebuilds() -> None:
    found = probe.probe(architectures()[NAME], CPU, graphs=False)
    assert (found.error, found.finite) == ("", True)
    assert found.decode_error is not None
    assert found.decode_error < MAX_DECODE_ERROR
    assert [module.module for module in found.modules if not module.rebuilds] == []


def test_probe_reports_an_error_of_the_library() -> None:
    broken = copy.copy(architectures()[NAME])
    object.__setattr__(broken, "model", "NoSuchModel")
    found = probe.probe(broken, CPU, graphs=False)
    assert "NoSuchModel" in found.error
    assert not found.finite


@pytest.mark.parametrize("mutant", fit.MUTANTS)
@torch.inference_mode()
def test_mutant_changes_the_output(mutant: str) -> None:
    architecture = architectures()[NAME]
    size = architecture.sizes[CPU]
    model = models.build(ModelData.of(architecture, size))
    models.draw_weights(model, 5)
    inputs = models.draw_inputs(size.inputs, torch.bfloat16, torch.Generator().manual_seed(1))
    before = models.main_output(model(**inputs, use_cache=False))
    after = models.main_output(fit.MUTANTS[mutant](copy.deepcopy(model))(**inputs, use_cache=False))
    assert not torch.equal(before, after)


@torch.inference_mode()
def test_layer_left_out_costs_more_than_roundings_where_attention_has_no_scale() -> None:
    architecture = architectures()["diffusion_gemma"]
    heads = {  # as on a GPU
        "num_hidden_layers": 6,
        "layer_types": [*["sliding_attention"] * 5, "full_attention"],
        "head_dim": 256,
        "global_head_dim": 512,
    }
    size = architecture.sizes[CPU]
    size = dataclasses.replace(size, settings=merged(size.settings, {"text_config": heads}))
    model = models.build(ModelData.of(architecture, size))
    models.draw_weights(model, 11)
    inputs = models.draw_inputs(size.inputs, torch.bfloat16, torch.Generator().manual_seed(11))
    exact, rounded, shorter = (
        models.forward(each, inputs, architecture)
        for each in (copy.deepcopy(model).float(), model, fit.skip_layer(copy.deepcopy(model)))
    )
    found = budget.ratios([budget.row_errors(shorter, exact)], [budget.row_errors(rounded, exact)])
    assert found.median > 5  # 1.4 where scores have a deviation of 16


def test_parameters_named_in_the_file_stay_in_float32() -> None:
    architecture = architectures()["esmfold2_pairs"]
    model = models.build(ModelData.of(architecture, architecture.sizes[CPU]))
    kept = {name for name, p in model.named_parameters() if p.dtype == torch.float32}
    assert kept == {name for name, _ in model.named_parameters() if "norm" in name} != set()
    assert models.float_dtype(model) == torch.bfloat16


def test_fit_without_a_required_mutant_names_it() -> None:
    near, far = Ratios(1.0, 1.0), Ratios(9.0, 9.0)
    found = fit.Fit({"sums in two halves": near}, {"int8 weights": far, "fp8 weights": near})
    assert (found.missing, found.missed) == (["skipped layer"], ["fp8 weights"])
