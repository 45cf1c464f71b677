"""Names that a Python source may import and use: allowed, unsupported, or of the machine.

What is unsupported has honest uses, and a source that uses it cannot be judged. Names of the
machine are for tricks. An import that nothing uses is harmless.
"""

from __future__ import annotations

import functools
import importlib.util
import pkgutil
import sys
from collections.abc import Collection

MACHINE = frozenset(
    "asyncio builtins codecs concurrent copyreg ctypes gc glob importlib inspect io linecache"
    " logging marshal mmap multiprocessing os pathlib pickle pkgutil platform posix posixpath"
    " runpy shutil socket subprocess sys tempfile thread threading traceback warnings"
    " weakref".split()
)
"""Modules that an allowed one may have imported, and that must not be used through it."""
FILES = frozenset(
    "from_file fromfile tofile memmap dump _dump_snapshot _write_file _set_from_file"
    " _new_with_file _new_shared_filename_cpu _new_using_filename_cpu _new_using_fd_cpu"
    " _share_filename_cpu_ _share_fd_cpu_".split()
)
"""Methods of storages and arrays that read or write files."""
_HARMLESS = frozenset(
    "warnings.catch_warnings warnings.filterwarnings warnings.simplefilter warnings.warn"
    " numpy.log numpy.log2 numpy.sqrt numpy.exp numpy.ceil numpy.floor numpy.prod numpy.pi"
    " einops.rearrange einops.reduce einops.repeat einops.einsum einops.pack einops.unpack"
    " einops.layers.torch.Rearrange einops.layers.torch.Reduce"
    " task.input_t task.output_t".split()
)
"""Names beyond the allowed modules: warnings, arithmetic on numbers, views of tensors, and types.

The types are those of GPU MODE's form of a submission.
"""
_HONEST = tuple(
    f"{name}."
    for name in "gc.collect inspect.signature logging os.cpu_count os.environ os.getenv os.path"
    " os.sched_getaffinity os.sep platform.machine platform.python_version platform.system"
    " sys.argv sys.byteorder sys.maxsize sys.path sys.platform sys.stderr sys.stdout sys.version"
    " sys.version_info traceback.format_exc traceback.print_exc warnings weakref".split()
)
"""Names of modules of the machine that honest sources use, though they cannot be judged."""
_SETTINGS = ("os.environ", "sys.path")
"""Those of them that are changed in place."""
_INERT = {*sys.stdlib_module_names, "numpy", "einops"} - {"antigravity", "idlelib", "this"}
"""Packages whose import does nothing else."""
_TORCH_PARTS = tuple(
    f"torch.{part}."
    for part in "classes compile compiler.load_cache_artifacts distributed export hub jit library"
    " load multiprocessing package save utils ops.load_library from_file serialization _C _dynamo"
    " _inductor".split()
)
_TORCH_MODULES = frozenset(
    "__future__ _torch_docs accelerator amp autograd backends compiler cpu cuda distributions fft"
    " func functional linalg masked nested nn optim overrides quasirandom random return_types"
    " signal sparse special types version xpu".split()
)
"""Modules in PyTorch's package that a source may use; all others there are refused."""
_TORCH_HONEST = tuple(
    f"torch.{part}."
    for part in "compile distributed export jit library onnx profiler testing utils.benchmark"
    " utils.checkpoint utils.data utils.dlpack".split()
)
"""Those of the refused parts that honest sources use."""
_READERS = (
    "operator.attrgetter.",
    "operator.methodcaller.",
    "functools.singledispatch.",
    "typing.ForwardRef.",
    "typing.get_type_hints.",
)
"""Functions that take an attribute or a program from a string."""


def may_be_imported(path: str, modules: Collection[str]) -> bool:
    """Return whether a source may import a dotted name: a module, or a name of one."""
    first, *inner = path.split(".")
    if path in _HARMLESS:
        return True
    if first not in modules or is_refused(from_torch(path)):
        return False
    if inner[1:] and inner[-1] == "*":  # without a list of its names, a module has its imports
        return False
    return not any(name.strip("_") in MACHINE or name in FILES for name in inner)


def is_inert(path: str) -> bool:
    """Return whether nothing happens where a dotted name is imported and not used."""
    return path.partition(".")[0] in _INERT or is_honest(path)


def is_trick(path: str, modules: Collection[str]) -> bool:
    """Return whether the use of a dotted name that may not be imported is a trick."""
    parts = path.split(".")
    if is_honest(path) or not parts[0]:  # a relative import finds nothing
        return False
    return parts[0] in modules or any(part.strip("_") in MACHINE for part in parts)


def is_refused(path: str) -> bool:
    """Return whether a dotted name is in a refused part of an allowed module."""
    if f"{path}.".startswith((*_TORCH_PARTS, *_READERS)):
        return True
    first, _, rest = path.partition(".")
    part = rest.partition(".")[0]
    return first == "torch" and part in _torch_modules() - _TORCH_MODULES


def is_honest(path: str) -> bool:
    """Return whether a refused dotted name has honest uses: it is unsupported."""
    parts = path.split(".")
    if any(part.startswith("_") for part in parts):
        return False
    of_torch = f"{path}.".startswith(_TORCH_HONEST) and MACHINE.isdisjoint(parts)
    return of_torch or f"{path}.".startswith(_HONEST)


def is_setting(path: str) -> bool:
    """Return whether honest sources change the contents of a dotted name of the machine."""
    return path in _SETTINGS


def from_torch(path: str) -> str:
    """Return a dotted name from its last `torch` on: PyTorch's modules have imported PyTorch."""
    head, inner, rest = f"{path}.".rpartition(".torch.")
    return f"torch.{rest}".rstrip(".") if inner and head.startswith("torch") else path


@functools.cache
def _torch_modules() -> frozenset[str]:
    """Return the modules in PyTorch's package, which is not imported; empty without it."""
    found = importlib.util.find_spec("torch")
    folders = found and found.submodule_search_locations
    return frozenset(module.name for module in pkgutil.iter_modules(folders or ()))
