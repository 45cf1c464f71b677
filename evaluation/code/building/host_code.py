"""Names that host code of a kernel language may use: of PyTorch, of its tensors, and of Triton.

Host code is all of a source outside its kernels. It allocates, reshapes and launches, and the
kernels compute. A list of what computes cannot be complete, so these lists say what may be used.
"""

from __future__ import annotations

import ast
import collections
import functools
from collections.abc import Iterator, Sequence

from evaluation.code.building.static_analysis import Source, bound_by_import

# torch is imported in a function, because that takes seconds.

DTYPES = frozenset(
    "bfloat16 bool cfloat complex128 complex32 complex64 double float float16 float32 float64"
    " float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2"
    " half int int16 int32 int64 int8 long short uint16 uint32 uint64 uint8".split()
)
_TORCH = frozenset(
    "Generator Size Tensor broadcast_shapes contiguous_format device dtype empty empty_like"
    " empty_strided finfo full full_like iinfo inference_mode is_tensor memory_format no_grad"
    " ones ones_like promote_types result_type strided zeros zeros_like autograd.Function"
    " cuda.current_device cuda.current_stream cuda.device cuda.device_count"
    " cuda.get_device_capability cuda.get_device_properties cuda.is_available nn.Module"
    " nn.Parameter version.cuda version.hip".split()
)
"""Names of PyTorch that allocate or describe."""
_UNSUPPORTED = (
    "torch.compiler.",
    "torch.cuda.",
    "torch.manual_seed.",
    "torch.set_",
    "torch.use_deterministic_algorithms.",
    "torch.version.",
)
"""Names that compute nothing, and that cannot be judged."""
_TENSOR = frozenset(
    "as_strided bfloat16 broadcast_to chunk clone contiguous cpu data_ptr detach device diagonal"
    " dim dtype element_size expand expand_as fill_ flatten float get_device half index int"
    " is_complex is_contiguous is_cpu is_cuda is_floating_point item itemsize layout long mT"
    " movedim narrow nbytes ndim ndimension nelement new_empty new_empty_strided new_full new_ones"
    " new_zeros numel permute ravel record_stream requires_grad reshape reshape_as select shape"
    " size split squeeze storage_offset stride swapaxes swapdims t T to tolist transpose type"
    " unbind unflatten unfold unsqueeze untyped_storage values view view_as zero_"
    " __doc__ __init__ __len__ __module__".split()
)
"""Attributes of a tensor that describe, allocate, fill, copy it whole or give a view of it.

With them, names of Python's own types that a tensor has too, such as `index`.
"""
_TRITON = (
    "triton.Config.",
    "triton.JITFunction.",
    "triton.KernelInterface.",
    "triton.OutOfResources.",
    "triton.autotune.",
    "triton.cdiv.",
    "triton.compiler.CompiledKernel.",
    "triton.constexpr_function.",
    "triton.experimental.gluon.",
    "triton.heuristics.",
    "triton.jit.",
    "triton.language.",
    "triton.next_power_of_2.",
    "triton.reinterpret.",
    "triton.runtime.Autotuner.",
    "triton.runtime.JITFunction.",
    "triton.runtime.OutOfResources.",
    "triton.runtime.autotuner.",
    "triton.runtime.driver.active.get_current_device.",
    "triton.runtime.driver.active.get_current_stream.",
    "triton.runtime.driver.active.get_current_target.",
    "triton.runtime.driver.active.utils.",
    "triton.runtime.errors.",
    "triton.runtime.jit.",
    "triton.set_allocator.",
    "triton.tools.mxfp.",
    "triton.tools.tensor_descriptor.",
    "triton.__version__.",
)
_OPERATOR = frozenset(
    "add and_ eq floordiv ge getitem gt index itemgetter le length_hint lt mod mul ne neg not_"
    " or_ sub truediv xor".split()
)
_RAW = frozenset("__wrapped__ base_fn fn get_device_interface torch".split())
"""Attributes that give a kernel's function to be run by Python, or PyTorch itself."""
_DECORATORS = frozenset(
    "triton.jit triton.runtime.jit.jit triton.autotune triton.runtime.autotuner.autotune"
    " triton.heuristics triton.runtime.autotuner.heuristics triton.constexpr_function"
    " triton.experimental.gluon.jit triton.language.core.builtin".split()
)
_JIT = frozenset("triton.jit triton.runtime.jit.jit triton.experimental.gluon.jit".split())

HOST_CODE = (
    "write it as a kernel. Host code may allocate (`torch.empty`, `zeros_like`), ask for shapes,"
    " strides and dtypes, take views (`view`, `permute`, `contiguous`) and launch kernels"
)


class HostCode:
    """The nodes of a source outside its kernels, and the names that stand for one thing."""

    jit: frozenset[str] = _JIT
    """Decorators of a kernel."""
    decorators: frozenset[str] = _DECORATORS
    """Those that may stand with one of them."""
    allowed: tuple[str, ...] = _TRITON
    """Names of the language's packages that host code may use, each with a dot at its end."""
    traces_torch = False
    """True where PyTorch's operations within a kernel are compiled."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._rebound = set(_rebound(source))

    def is_kernel(self, node: ast.AST) -> bool:
        """Return whether a function is compiled: `jit` decorates it, and no decorator keeps it."""
        if not isinstance(node, ast.FunctionDef):
            return False
        decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
        paths = {self.path(decorator) for decorator in decorators}
        return not paths.isdisjoint(self.jit) and paths <= self.decorators

    def nodes(self) -> Iterator[ast.AST]:
        """Yield every node outside the bodies of kernels, in the order of the source."""
        stack: list[ast.AST] = [self.source.tree]
        while stack:
            node = stack.pop()
            yield node
            device = set(self.device_code(node))
            children = (child for child in ast.iter_child_nodes(node) if child not in device)
            stack.extend(reversed(list(children)))

    def device_code(self, node: ast.AST) -> Sequence[ast.AST]:
        """Return the children of a node that run on the GPU: the body of a kernel."""
        return node.body if isinstance(node, ast.FunctionDef) and self.is_kernel(node) else ()

    def path(self, node: ast.AST) -> str:
        """Return the dotted name of a node that stands for it throughout; empty for others."""
        root = node
        while (owner := self._owner(root)) is not None:
            root = owner
        if isinstance(root, ast.Name) and root.id in self._rebound:
            return ""
        return self.source.path(node) if self.source.of_module(node) else ""

    def _owner(self, node: ast.AST) -> ast.AST | None:
        """Return the expression that a node takes an attribute or an item of; None for others."""
        if isinstance(node, ast.Attribute | ast.Subscript):
            return node.value
        if isinstance(node, ast.Call) and self.source.attribute(node):
            return node.args[0]
        return None

    def check(self) -> None:
        """Raise Rejected for code that may compute by a library.

        Raises: Unsupported, if there is nothing of that kind, for what cannot be judged.
        """
        nodes = list(self.nodes())
        parts = {owner for node in nodes if (owner := self._owner(node)) is not None}
        unsupported = None
        for node in nodes:
            if fault := self._fault(node, node in parts):
                raise self.source.reject(node, "library-wrapper", f"{fault}; {HOST_CODE}")
            path = "" if node in parts else self.path(node)
            if not unsupported and path and not self._is_allowed(path):
                message = f"`{path}` is not supported here; write it without"
                unsupported = self.source.unsupported(node, message)
        if not self.traces_torch:
            self._check_kernels(set(nodes))
        if unsupported:
            raise unsupported

    def _check_kernels(self, host: set[ast.AST]) -> None:
        """Raise Rejected for PyTorch in the body of a kernel, which Python runs to trace it."""
        for node in self.source.nodes:
            path = "" if node in host else self.path(node)
            if path.startswith("torch.") and self._is_library(path) and not self._is_prefix(path):
                raise self.source.reject(node, "library-wrapper", f"{_reason(path)}; {HOST_CODE}")

    def _is_prefix(self, path: str) -> bool:
        """Return whether host code may use a longer name."""
        return any(name.startswith(f"{path}.".removeprefix("torch.")) for name in _TORCH)

    def _fault(self, node: ast.AST, is_part: bool) -> str:
        """Return what is wrong with a node; empty for nothing. `is_part`: of a longer name."""
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            return "`@` is PyTorch's matrix product"
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            return f"`from {node.module} import *` does not say what is used"
        if path := self.path(node):
            return "" if is_part or not self._is_library(path) else _reason(path)
        names: list[str] = []
        if isinstance(node, ast.MatchClass):
            names = node.kwd_attrs
        elif isinstance(node, ast.Call) and self.source.path(node.func) == "getattr":
            if not self.source.attribute(node):
                return f"`{self.source.quote(node)}` takes a name that is not written here"
            names = [self.source.attribute(node)]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        for name in names:
            if name in _RAW or (name not in _TENSOR and name in _tensor_attributes()):
                return f"`{self.source.quote(node) or name}` may compute outside your kernels"
        return ""

    def _is_allowed(self, path: str) -> bool:
        """Return whether host code may use a dotted name of a module."""
        first, _, rest = path.partition(".")
        if first == "torch":
            return rest in _TORCH or rest in DTYPES
        if first == "operator":
            return rest in _OPERATOR
        if any(name.startswith(f"{first}.") for name in self.allowed):
            return f"{path}.".startswith(self.allowed) and not self._is_library(path)
        return True

    def _is_library(self, path: str) -> bool:
        """Return whether a dotted name may compute, or may give what does."""
        first, *rest = path.split(".")
        if first in ("torch", "operator"):
            return not f"{path}.".startswith(_UNSUPPORTED) and not self._is_allowed(path)
        if not any(name.startswith(f"{first}.") for name in self.allowed):
            return False
        # Private parts of Triton have a matrix product of cuBLAS.
        private = any(part.startswith("_") and part != "__version__" for part in rest)
        return not rest or private or not _RAW.isdisjoint(rest)


def _reason(path: str) -> str:
    if "." in path:
        return f"`{path}` computes outside your kernels"
    return f"`{path}` may not be passed on; write what you use of it"


@functools.cache
def _tensor_attributes() -> frozenset[str]:
    """Return all that a tensor has, and a parameter."""
    import torch

    return frozenset(dir(torch.Tensor)) | frozenset(dir(torch.nn.Parameter))


def _rebound(source: Source) -> Iterator[str]:
    """Yield the names that may stand for a module or a part of one, and for something else."""
    bound: collections.Counter[str] = collections.Counter()
    imported: dict[str, set[str]] = collections.defaultdict(set)
    for node in source.nodes:
        bound.update(_bound_by(node))
        for name, path in bound_by_import(node):
            imported[name].add(path)
    yield from (name for name, paths in imported.items() if bound[name] or len(paths) > 1)
    yield from (name for name, times in bound.items() if name not in imported and times > 1)


def _bound_by(node: ast.AST) -> list[str]:
    """Return the names that a node binds, other than by an import."""
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    names = [getattr(node, field, None) for field in ("name", "arg", "rest")]
    is_call = isinstance(node, ast.keyword | ast.alias)
    return [] if is_call else [name for name in names if isinstance(name, str)]
