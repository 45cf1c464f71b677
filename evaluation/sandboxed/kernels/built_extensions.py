"""UNTRUSTED: extensions that `load_inline` finds ready-made, in the process of a candidate."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from evaluation.errors import SubmissionError
from evaluation.sandboxed.build_torch import EXTENSIONS, key_of
from evaluation.types import Reason


def replace_load_inline(folder: Path) -> None:
    """Let `load_inline` find the libraries in `folder` without a compiler."""
    import torch

    def load_inline(*arguments: Any, **options: Any) -> ModuleType:
        built = list((folder / EXTENSIONS).glob(f"*.{key_of(*arguments, **options)}.so"))
        if not built:
            raise SubmissionError(
                Reason.BUILD_ERROR,
                "an extension was not built: call `load_inline` with the same arguments whenever "
                "the file is imported, also where there is no GPU",
            )
        spec = importlib.util.spec_from_file_location(built[0].name.partition(".")[0], built[0])
        assert spec is not None and spec.loader is not None, f"{built[0]} is no library"
        try:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        except ImportError as error:
            raise SubmissionError(Reason.BUILD_ERROR, f"cannot be loaded: {error}") from error
        return module

    name = "torch.utils.cpp_extension"
    extension: Any = ModuleType(name)
    extension.load_inline = load_inline
    sys.modules[name] = torch.utils.cpp_extension = extension
