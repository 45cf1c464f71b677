"""Sources of library classes: found, copied into one file, and refused where they need too much."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from evaluation.errors import TaskError
from evaluation.kinds.module.architectures import architectures
from evaluation.kinds.module.description import library_source
from evaluation.kinds.module.description.library_source import NotPortable
from tests.conftest import skip_or_fail

LLAMA = "transformers.models.llama.modeling_llama"


@pytest.fixture(autouse=True)
def libraries() -> None:
    if why := architectures()["llama"].missing():
        skip_or_fail(why)


def test_source_names_its_library_version_and_licence() -> None:
    found = library_source.find(f"{LLAMA}.LlamaRMSNorm")
    assert found.library == "transformers" and found.version and "Apache" in found.licence
    assert found.path == "transformers/models/llama/modeling_llama.py"
    assert "class LlamaRMSNorm" in found.text and "class LlamaMLP" not in found.text
    assert found.annotated.startswith("# From transformers")


def test_class_that_is_not_there_is_refused() -> None:
    with pytest.raises(TaskError, match="no such class"):
        library_source.find(f"{LLAMA}.Nothing")


def test_search_of_a_source_imports_no_library() -> None:
    program = (
        "import sys\n"
        "from evaluation.kinds.module.description import library_source\n"
        f"library_source.copied({f'{LLAMA}.LlamaMLP'!r})\n"
        "print(sorted({'torch', 'transformers'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_copy_is_one_file_without_the_library() -> None:
    text = library_source.copied(f"{LLAMA}.LlamaMLP")
    assert "class ModelNew(nn.Module)" in text and "transformers" not in text
    assert "ACT2FN = {" in text


def test_class_below_an_else_is_found_and_copied() -> None:
    path = "transformers.models.xlstm.modeling_xlstm.xLSTMRMSNorm"
    assert library_source.find(path).text.startswith("class xLSTMRMSNorm(nn.Module):\n")
    text = library_source.copied(path)
    compile(text, "copy.py", "exec")
    assert "\nclass ModelNew(nn.Module):\n" in text


def test_copy_takes_base_classes_along() -> None:
    text = library_source.copied("torch.nn.modules.conv.Conv2d")
    assert "class _ConvNd(Module)" in text and "class ModelNew(_ConvNd)" in text
    assert "super().__init__" in text and "__setstate__" not in text


def test_class_that_needs_half_of_its_library_is_not_portable() -> None:
    with pytest.raises(NotPortable):
        library_source.copied(f"{LLAMA}.LlamaDecoderLayer")


def test_signatures_have_no_annotations() -> None:
    found = library_source.signatures(f"{LLAMA}.LlamaRMSNorm")
    assert found == {"__init__": "self, hidden_size, eps=1e-06", "forward": "self, hidden_states"}


def test_activations_of_a_copy_compute_what_those_of_the_library_do() -> None:
    from transformers.activations import ACT2FN

    names: dict[str, Any] = {"torch": torch}
    exec(library_source.SUBSTITUTES["transformers.activations.ACT2FN"], names)
    x = torch.randn(64, dtype=torch.float64)
    assert "quick_gelu" in names["ACT2FN"], "CLIP's"
    for name, function in names["ACT2FN"].items():
        torch.testing.assert_close(function(x), ACT2FN[name](x))
