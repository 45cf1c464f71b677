"""Runs in the sandbox, as a script: imports a PyTorch candidate, and builds what it asks for by
`load_inline` on the way.

    python -I torch_build.py <source.py> <folder>

Every library that was built is left in the folder as `<module>.<key>.so`, the key being that of the
call. Nothing else of the folder is anything but a stranger's words. The exit code is REFUSED when a
compiler refused a source and the candidate had no answer to that.
"""

from __future__ import annotations

import copy
import gc
import hashlib
import importlib.util
import inspect
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

REFUSED = 3


class RefusedSource(Exception):
    """An extension could not be built."""


def key_of(*arguments: Any, **options: Any) -> str:
    """What a call of `load_inline` is known by: the same arguments, the same library."""
    said = repr((arguments, sorted(options.items())))
    return hashlib.sha256(said.encode()).hexdigest()[:40]


def main(source: Path, folder: Path) -> int:
    gc.disable()  # what is imported is no garbage, and looking for some takes a fifth of the time
    from torch.utils import cpp_extension

    gc.freeze()
    gc.enable()
    builder: Any = cpp_extension
    builder.load_inline = building(cpp_extension.load_inline, folder)
    spec = importlib.util.spec_from_file_location("_candidate", source)
    assert spec is not None and spec.loader is not None, f"{source} is no Python file"
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except RefusedSource as refused:
        print(refused, flush=True)
        return REFUSED
    except BaseException:  # here there is no GPU; where it is judged it may well go on
        print("Where it was built, where there is no GPU, it went no further than this:")
        print(traceback.format_exc(), flush=True)
    return 0


def building(load_inline: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """PyTorch's `load_inline`, told where to build, and to say what its compilers say."""

    def build(*arguments: Any, **options: Any) -> Any:
        import torch

        key = key_of(*arguments, **options)
        # PyTorch adds to the lists that it is given, and keeps precompiled headers among its own.
        call = inspect.signature(load_inline).bind(*arguments, **options)
        asked = {**copy.deepcopy(call.arguments), "verbose": True, "use_pch": False}
        asked["build_directory"] = str(folder / key)
        (folder / key).mkdir(exist_ok=True)
        if asked.get("cuda_sources"):
            if torch.version.cuda is None:
                raise RefusedSource("`cuda_sources` need a PyTorch built for CUDA; this one is not")
            asked["extra_cuda_cflags"] = [*(asked.get("extra_cuda_cflags") or ()), "-Xptxas=-v"]
        sys.stdout.flush()
        try:
            module = load_inline(**asked)
        except Exception as error:
            raise RefusedSource(f"load_inline: {error}") from error
        library = Path(module.__file__)  # what the module calls itself is its own affair
        shutil.copy(library, folder / f"{library.stem}.{key}.so")
        return module

    return build


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
