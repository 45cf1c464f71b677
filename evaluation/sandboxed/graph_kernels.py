"""UNTRUSTED: names of the kernels in a captured graph, and those that no source defines.

A product of a library runs as a kernel of cuBLAS, cuDNN or PyTorch, however the call was spelt.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from evaluation.errors import SubmissionError
from evaluation.types import Reason

_KERNEL, _SUCCESS = 0, 0
MAX_NODES = 1 << 16
_loaded = functools.cache(ctypes.CDLL)  # loading anew for each of a thousand launches takes 40 ms
_LIBRARY = re.compile(
    r"(?:volta|turing|ampere|hopper|sm\d+)_\w*(?:gemm|gemv|xmma|conv)|nvjet_|cudnn_|cublas|_Z"
)
"""Names of NVIDIA's kernels, and of all that C++ names, which no function of a source may have."""
_FILLS_AND_COPIES = re.compile(r"^_ZN2at6native.*(?:FillFunctor|copy_kernel)")
"""PyTorch's kernels that host code may start: those of `zeros`, `contiguous` and `to`."""


class _KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2. Source: cuda.h of CUDA 12; padded for later fields."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("sizes", ctypes.c_uint * 7),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("padding", ctypes.c_byte * 184),
    )


def kernel_names(graph: ctypes.c_void_p) -> set[str]:
    """Return the names of a graph's kernels; none where the driver is older than CUDA 12.3."""
    try:
        driver = _loaded("libcuda.so.1")
        node_type, node_parameters = driver.cuGraphNodeGetType, driver.cuGraphKernelNodeGetParams_v2
        namers = driver.cuFuncGetName, driver.cuKernelGetName
    except (OSError, AttributeError):
        return set()
    count = ctypes.c_size_t(0)
    if driver.cuGraphGetNodes(graph, None, ctypes.byref(count)) != _SUCCESS:
        return set()
    count.value = min(count.value, MAX_NODES)
    nodes = (ctypes.c_void_p * count.value)()
    if not count.value or driver.cuGraphGetNodes(graph, nodes, ctypes.byref(count)) != _SUCCESS:
        return set()
    names = set()
    for node in map(ctypes.c_void_p, nodes):
        kind, values, name = ctypes.c_int(-1), _KernelNode(), ctypes.c_char_p()
        if node_type(node, ctypes.byref(kind)) != _SUCCESS or kind.value != _KERNEL:
            continue
        if node_parameters(node, ctypes.byref(values)) != _SUCCESS:
            continue
        for namer, handle in zip(namers, (values.function, values.kernel), strict=True):
            if handle and namer(ctypes.byref(name), ctypes.c_void_p(handle)) == _SUCCESS:
                names.add((name.value or b"").decode(errors="replace"))
                break
    return names


def functions_of(path: Path) -> frozenset[str]:
    """Return the names of the functions that a source in Python defines."""
    tree = ast.parse(path.read_text("utf-8").removeprefix("\ufeff"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def foreign(names: Iterable[str], functions: Collection[str]) -> list[str]:
    """Return the kernels that compilers make of none of these functions, nor fill or copy."""
    return sorted(
        name
        for name in names
        if name
        and not _FILLS_AND_COPIES.match(name)
        and (_LIBRARY.match(name) or not _is_of(name, functions))
    )


def _is_of(name: str, functions: Collection[str]) -> bool:
    """Return whether Triton, Helion, CuTe DSL or TileLang names the kernel of a function so."""
    stem = name.removeprefix("_helion_")
    if stem in functions or name.removesuffix("_kernel") in functions:
        return True
    prefixes = tuple(f"kernel_cutlass_{function}_" for function in functions)
    # Several kernels of one function are numbered.
    return name.startswith(prefixes) or re.sub(r"(?:_kernel)?(?:_\d+)?$", "", stem) in functions


def check(names: Iterable[str], functions: Collection[str]) -> None:
    """Raise SubmissionError(FORBIDDEN) where one of these kernels is a library's."""
    if found := foreign(names, functions):
        message = f"a launch runs `{found[0][:200]}`, which is no kernel of the source"
        raise SubmissionError(Reason.FORBIDDEN, f"{message}; write it as a kernel")
