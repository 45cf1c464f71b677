"""Descriptions of tasks from a built model: complete, and refused where no call can be judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.errors import TaskError
from evaluation.kinds.module.architectures import FOLDER, architectures, load
from evaluation.kinds.module.description.describe import describe
from tests.conftest import skip_or_fail

CACHED = """
[[tasks]]
name = "pi0_gemma_attention"
title = "Gemma attention of Pi0"
category = "attention"
module = "transformers.models.gemma.modeling_gemma.GemmaAttention"
"""


@pytest.fixture(autouse=True)
def libraries() -> None:
    if why := architectures()["pi0"].missing():
        skip_or_fail(why)


def test_module_that_is_called_with_a_cache_alone_is_refused(tmp_path: Path, cache: Path) -> None:
    text = (FOLDER / "pi0.toml").read_text().partition("[[tasks]]")[0]
    path = tmp_path / "pi0.toml"
    path.write_text(text + CACHED)
    with pytest.raises(TaskError, match="pi0_gemma_attention: each call takes what cannot be"):
        describe(load(path), cache, with_ceilings=False, log=print)


def test_committed_description_is_what_the_model_gives(cache: Path) -> None:
    architecture = architectures()["point_attention"]
    found = describe(architecture, cache, with_ceilings=False, log=print)
    task = found["tasks"]["point_attention_gatv2_conv"]
    assert (task["places"], task["starter"], task["dtype"]) == (3, "skeleton", "float32")
    assert task["shapes"][0]["inputs"] == ["x float32[256, 64]", "edge_index int64[2, 4096]"]
