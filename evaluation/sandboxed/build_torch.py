"""UNTRUSTED: imports a PyTorch candidate, and builds its `load_inline` extensions. Run as a script.

    python -I build_torch.py <source.py> <folder> <call.json>

Each library is left in the folder as `<module>.<key>.so`, with the key of the call. Where the JSON
is a call of a suite's module, that is made and called on tensors of a processor. The exit code
is REFUSED when a compiler refused a source and the candidate did not handle that.
"""

from __future__ import annotations

import ast
import copy
import gc
import hashlib
import importlib.util
import inspect
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

# torch is imported in functions: `main` does so first, without garbage collection.

REFUSED = 3
MODELS = ("ModelNew", "Model")
"""Names of an implementation that is a `torch.nn.Module`, as in KernelBench and in METR's form."""
EXTENSIONS = "extensions"
"""The folder of built extensions, beside the source."""


class RefusedSource(Exception):
    """An extension could not be built."""


def key_of(*arguments: Any, **options: Any) -> str:
    """Return the key of a `load_inline` call: equal arguments mean the same library."""
    text = repr((arguments, sorted(options.items())))
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def main(source: Path, folder: Path, call: Path) -> int:
    gc.disable()  # during imports, collection takes a fifth of the time and frees nothing
    from torch.utils import cpp_extension

    gc.freeze()
    gc.enable()
    torch_extensions: Any = cpp_extension
    torch_extensions.load_inline = building_in(cpp_extension.load_inline, folder)
    asked = json.loads(call.read_text(encoding="utf-8"))
    code = run(source, asked)
    if asked and not any(folder.glob("*.so")):
        import torch

        torch.cuda.is_available = lambda: True  # it may ask for extensions only then
        code = run(source, asked)
    return code


def run(source: Path, call: dict[str, Any] | None) -> int:
    """Import a source, make and call its module, and return the exit code."""
    add_types_of_gpu_mode()
    spec = importlib.util.spec_from_file_location("_candidate", source)
    assert spec is not None and spec.loader is not None, f"{source} is no Python file"
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        return in_another_process(lambda: call_module(module, call)) if call else 0
    except RefusedSource as refused:
        print(refused, flush=True)
        return REFUSED
    except BaseException:  # there is no GPU here; with one it may succeed
        print("Where it was built, where there is no GPU, it went no further than this:")
        print(traceback.format_exc(), flush=True)
    return 0


def in_another_process(act: Callable[[], None]) -> int:
    """Return the exit code of an act in a fork; a crash of native code there is no failure.

    It is called on tensors of a processor, which code for a GPU need not expect.
    """
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 0
        try:
            act()
        except RefusedSource as refused:
            print(refused, flush=True)
            code = REFUSED
        except BaseException:
            print(
                "Where it was built, where there is no GPU, its module went no further than this:"
            )
            print(traceback.format_exc(), flush=True)
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return REFUSED if code == REFUSED else 0


def call_module(module: Any, call: dict[str, Any]) -> None:
    """Make the module of a suite and call it, on zeros."""
    import torch

    model = next((found for name in MODELS if (found := getattr(module, name, None))), None)
    if model is None:
        return
    positional, named = ast.literal_eval(call["arguments"])
    made = model(*positional, **named)
    given = [
        torch.zeros(each["shape"], dtype=getattr(torch, each["dtype"]))
        if isinstance(each, dict)
        else each
        for each in call["inputs"]
    ]
    with torch.inference_mode():
        made(*given)


def add_types_of_gpu_mode() -> None:
    """Let a source import the types of its arguments, as a submission to GPU MODE does."""
    types: Any = ModuleType("task")
    types.input_t = types.output_t = Any
    sys.modules["task"] = types


def building_in(load_inline: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """Return PyTorch's `load_inline`, set to build in a folder and to print compiler output."""

    def build(*arguments: Any, **options: Any) -> Any:
        import torch

        key = key_of(*arguments, **options)
        # PyTorch changes the lists it is given, and writes precompiled headers to its own folder.
        call = inspect.signature(load_inline).bind(*arguments, **options)
        settings = {**copy.deepcopy(call.arguments), "verbose": True, "use_pch": False}
        settings["build_directory"] = str(folder / key)
        (folder / key).mkdir(exist_ok=True)
        if settings.get("cuda_sources"):
            if torch.version.cuda is None:
                raise RefusedSource("`cuda_sources` need a PyTorch built for CUDA; this one is not")
            flags = settings.get("extra_cuda_cflags") or ()
            settings["extra_cuda_cflags"] = [*flags, "-Xptxas=-v"]
        sys.stdout.flush()
        try:
            module = load_inline(**settings)
        except Exception as error:
            raise RefusedSource(f"load_inline: {error}") from error
        library = Path(module.__file__)  # the module may set any `__name__`
        shutil.copy(library, folder / f"{library.stem}.{key}.so")
        return module

    return build


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
