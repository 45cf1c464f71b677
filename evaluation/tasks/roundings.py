"""Size of the rounding errors of a reference, by Monte Carlo arithmetic.

The reference is computed in float64 several times. Each time every operation is disturbed by a
random relative error of one float32 rounding. The largest change of an element, in roundings, is
the size of its error: what a careful float32 implementation may lose there.

Source: Parker, "Monte Carlo Arithmetic", 1997.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from evaluation.tasks.float64 import Lifted, lifted_arguments, outputs_of
from evaluation.tasks.operation_count import terms_of
from evaluation.tasks.tolerance import SMALLEST_NORMAL, UNIT_ROUNDOFF

PROBES = 8
MANY = 16.0
"""Roundings that may decide a whole number."""
MANY_PROBES = 24
"""Runs for those: a tie is decided the same way in all of them once in 2^24."""
NOISE_ELEMENTS = {"cpu": 1 << 18, "cuda": 1 << 23}
"""Elements of noise by device. A tensor is disturbed in parts of half as many, so that they stay in
a processor's cache while several operations read them. On a GPU each part costs some launches."""
MAX_BATCHED = 1 << 17
"""Elements of all tensors up to which the runs are batched."""
UNIT, SMALLEST = UNIT_ROUNDOFF["float32"], SMALLEST_NORMAL["float32"]
FAR_FROM_ZERO = 1024 * SMALLEST / UNIT
"""Size from which a number that is flushed to zero does not matter beside a rounding."""
EXACT = frozenset(
    "abs neg relu relu_ clamp clamp_min clamp_max clamp_ clamp_min_ clamp_max_ maximum minimum"
    " fmax fmin sign sgn floor ceil round trunc where masked_fill masked_fill_ threshold fill_"
    " fill zero_ copy_ copy clone _to_copy cat stack index index_select gather flip roll repeat"
    " constant_pad_nd embedding amax amin max min sort topk argmax argmin kthvalue median"
    " scatter index_put index_copy masked_scatter masked_select nan_to_num tril triu diagonal_copy"
    " diag_embed hardtanh max_pool2d_with_indices max_pool3d_with_indices scatter_reduce cummax"
    " cummin aminmax mode unfold im2col reflection_pad1d reflection_pad2d reflection_pad3d"
    " replication_pad1d replication_pad2d replication_pad3d pixel_shuffle pixel_unshuffle"
    " upsample_nearest1d upsample_nearest2d upsample_nearest3d channel_shuffle isnan isinf"
    " empty empty_like zeros zeros_like ones ones_like full full_like scalar_tensor arange"
    " lift_fresh lift_fresh_copy detach alias new_zeros new_ones new_full new_empty slice_scatter"
    " select_scatter bernoulli rand randn rand_like randn_like _local_scalar_dense eye"
    " convert_element_type broadcast_in_dim view_of".split()
)
"""Operations without a rounding: selections, copies and changes of sign."""
KEPT = frozenset(
    "sum mean cumsum cumprod prod mm addmm bmm baddbmm dot mv addmv convolution"
    " avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d index_add scatter_add"
    " linalg_vector_norm exp log sin cos tanh sigmoid erf sqrt rsqrt pow add sub mul div"
    " logcumsumexp _cdist_forward _embedding_bag _embedding_bag_forward_only".split()
)
"""Operations that are disturbed as they are, although PyTorch can decompose them."""
WITH_ARGUMENT = frozenset(
    "exp exp2 expm1 sigmoid sinh cosh i0 i1 lgamma digamma bessel_i0 bessel_i1 bessel_j0 bessel_j1"
    " special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1".split()
)
"""Operations whose argument is rounded as well.

exp(x) is computed as 2^(x log2(e)), so that the rounding of the product counts x times. Source:
CUDA C++ programming guide, error of `__expf`. Bessel functions are off beside their zeros, where
they are small, by as much as elsewhere.
"""
PLACES = ("arange", "linspace")
"""Operations whose results do not depend on an input."""
INTERPOLATIONS = ("upsample_bilinear", "upsample_linear", "upsample_bicubic", "upsample_trilinear")
"""Operations that make places inside their decompositions."""
ADDENDS = {"addmm": 0, "baddbmm": 0, "addmv": 0, "convolution": 2}
"""Contractions that can have an addend, and its position."""
PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}
"""Products that a library may split, and the position of their first factor."""
PROBABILITIES = ("_softmax", "_safe_softmax")
"""Operations whose results attention rounds to 16 bits for tensor cores (FlashAttention, 2022)."""
SCALINGS = ("mul", "div")
"""Operations after which they are rounded so, such as by the scales of quantised values."""
HALVINGS = 3
"""Number of times that a product is split in two."""
MIN_TERMS = 16
"""Terms of a part, of which no library makes smaller ones."""
TF32_UNIT, TF32_MARGIN = 2.0**-10, 4.0
"""Error of operands cut to TF32's ten bits (NVIDIA A100 whitepaper); a product's margin over it."""
OPERANDS = {"mm": 0, "bmm": 0, "mv": 0, "convolution": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}
"""Products that tensor cores compute, and the position of the first of both operands."""
SUMS = ("sum", "dot", "add", "add_", "sub", "sub_", *OPERANDS)
"""Operations to whose results a further addend is added as to a sum."""
_cut_unit: ContextVar[float] = ContextVar("error of cut operands of a product", default=0.0)
_product_unit: ContextVar[float] = ContextVar("rounding of parts of a product", default=0.0)
Enough = Callable[[tuple[torch.Tensor, ...]], bool]
"""A test of the sizes of roundings after each run, with which they grow; True ends the runs."""
Asked = tuple[float, Enough | None, tuple[torch.Tensor, ...]]
_asked: ContextVar[Asked] = ContextVar("arguments of `disturbed_by`", default=(1.0, None, ()))
FACTORISATIONS = tuple(
    "linalg_inv linalg_qr linalg_lu linalg_lstsq linalg_eig linalg_pinv linalg_householder"
    " _linalg_svd _linalg_solve _linalg_eigh _linalg_det _linalg_slogdet lu_solve geqrf".split()
)
"""Operations whose errors are small beside the whole matrix, and not beside each element.

Source: Higham, "Accuracy and Stability of Numerical Algorithms", on backward stability.
"""


@contextmanager
def products_rounded_to(dtype: str) -> Iterator[None]:
    """Round partial sums of products to a dtype of 16 bits meanwhile, and to no other.

    cuBLAS does so where it splits a product, and before an addend. Source: PyTorch's notes on
    numerical accuracy, reduced precision reduction.
    """
    token = _product_unit.set(0.0 if dtype == "float32" else UNIT_ROUNDOFF.get(dtype, 0.0))
    try:
        yield
    finally:
        _product_unit.reset(token)


@contextmanager
def operands_cut(roundings: float) -> Iterator[None]:
    """Cut operands of products to TensorFloat-32 meanwhile, for a tolerance of so many roundings.

    Of the tolerance that follows, TF32_MARGIN times their error is a part.
    """
    token = _cut_unit.set(TF32_UNIT * TF32_MARGIN / roundings)
    try:
        yield
    finally:
        _cut_unit.reset(token)


@contextmanager
def disturbed_by(
    roundings: float, enough: Enough | None = None, exact: tuple[torch.Tensor, ...] = ()
) -> Iterator[None]:
    """Disturb every operation by so many roundings meanwhile, and give the change by one of them.

    Of large tensors, no run is made once sizes, zero at first, are `enough`. `exact` are the
    undisturbed outputs, if they are known.

    The change of a smooth function is the same. Beside the corner of a clamp it is not: there, one
    rounding may leave a number on the flat side where the roundings of a tolerance do not.
    """
    token = _asked.set((roundings, enough, exact))
    try:
        yield
    finally:
        _asked.reset(token)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that finds out whether a reference can be disturbed in one batch of runs.

    Places such as those of `arange` are the same in all runs of a batch, so numbers made from them
    must not round. Batching splits a product from its addend, whose sum is what float32 rounds.
    """

    can_batch = True
    _has_places = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        self._has_places |= name in PLACES
        if (name in ADDENDS and args[ADDENDS[name]] is not None) or name.startswith(INTERPOLATIONS):
            self.can_batch = False
        if self._has_places and torch.is_tensor(result) and result.dtype is torch.float64:
            found = [arg.dtype for arg in args if torch.is_tensor(arg)]
            if name in PLACES or (found and found[0] in (torch.int64, torch.int32)):
                self.can_batch = False
        return result


class Disturbed(Lifted):  # type: ignore[no-untyped-call]
    """A mode that disturbs every operation on float64 tensors by one rounding of float32.

    A sum of k terms has its terms and its result disturbed by sqrt(k) roundings. Fused operations
    run through their decompositions, because the cancellation inside them would not be seen.
    """

    def __init__(self, generator: torch.Generator, roundings: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._unit = UNIT * roundings
        # Noise is cut from one random tensor: drawing it anew would take most of the time.
        shape, device = (NOISE_ELEMENTS[generator.device.type],), generator.device
        noise = torch.rand(shape, generator=generator, device=device, dtype=torch.float64)
        self._noise = noise.mul_(2).sub_(1)
        self._error_room = torch.empty_like(noise[: len(noise) // 2])
        self._random = random.Random(int(noise[0] * 2**53))
        self._probabilities = 0  # the address of those that the last operation gave

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named, name = lifted_arguments(kwargs), func.overloadpacket.__name__
        if func.is_view or name in EXACT or (func.namespace == "prims" and name in EXACT):
            result = func(*args, **named)
            return _of_terms(result, getattr(args[0], "terms", 1.0)) if func.is_view else result
        decomposed = decomposition_table.get(func)
        if decomposed and name.startswith(INTERPOLATIONS):
            decomposed = partial(_interpolated, decomposed)
        if name == "convolution_backward" and sum(args[-1]) > 1:
            decomposed = _each_gradient
        if decomposed is not None and name.rstrip("_") not in KEPT:
            with self:
                found = decomposed(*args, **named)
            if found is not NotImplemented:
                self._probabilities = found.data_ptr() if name in PROBABILITIES else 0
                return found
        terms = terms_of(name, args, named)
        given, self._probabilities = self._probabilities, 0
        weighs = given and name in PRODUCTS and args[PRODUCTS[name]].data_ptr() == given
        if name in OPERANDS and _cut_unit.get():
            first = OPERANDS[name]
            cut = [self._cut(value, _cut_unit.get()) for value in args[first : first + 2]]
            args = (*args[:first], *cut, *args[first + 2 :])
        if name.startswith(FACTORISATIONS):
            args = tree_map(lambda value: self._disturbed_by_norm(value, terms), args)
            result = func(*args, **named)
            return tree_map(lambda value: self._disturbed_by_norm(value, terms), result)
        changed = args[0] if name.endswith("_") else None
        if terms > 1 or name.rstrip("_") in WITH_ARGUMENT:
            args = tree_map(lambda value: self._disturbed(value, terms), args)
        result = func(*args, **named)
        if torch.is_tensor(changed) and args[0] is not changed:
            result = changed.copy_(result)  # a disturbed copy was changed in its place
        if name in ADDENDS and _product_unit.get():
            addend, beta = args[ADDENDS[name]], named.get("beta", 1)
            result = self._with_rounded_product(result, addend, beta, _product_unit.get())
        if name in PRODUCTS and _product_unit.get():
            a, b = args[PRODUCTS[name] : PRODUCTS[name] + 2]
            error = self._error_of_parts(a, b, _product_unit.get())
            if weighs:
                error += self._error(a, (_product_unit.get() / self._unit) ** 2) @ b
            result = result + named.get("alpha", 1) * error
        in_place = func._schema.is_mutable and not name.startswith("_")
        held = {a.untyped_storage().data_ptr() for a in args if torch.is_tensor(a)}
        result = tree_map(lambda value: self._disturbed(value, terms, in_place, held), result)
        if name in SCALINGS and given in held:
            self._probabilities = result.data_ptr()
        return _of_terms(result, terms if name in SUMS else 1.0)

    def _cut(self, value: torch.Tensor, unit: float) -> torch.Tensor:
        """Return operands that are smaller by up to `unit`, each by a random part of it."""
        flat = value.contiguous().view(-1)
        result, scale = torch.empty_like(flat), unit * self._unit / UNIT
        for part, noise, out in self._parts(flat, result):
            torch.mul(part, noise.abs().mul_(-scale).add_(1.0), out=out)
        return result.view(value.shape)

    def _with_rounded_product(self, result: Any, addend: Any, beta: float, unit: float) -> Any:
        if not torch.is_tensor(addend) or result.dtype is not torch.float64:
            return result
        if addend.dim() == 1 and result.dim() > 2:  # of a convolution, one for each channel
            addend = addend.view(-1, *[1] * (result.dim() - 2))
        return result + self._error(result - beta * addend, (unit / self._unit) ** 2)

    def _disturbed_by_norm(self, value: Any, terms: float) -> Any:
        """Disturb each element of a matrix by roundings of its largest one."""
        if not torch.is_tensor(value) or value.dtype is not torch.float64 or not value.numel():
            return value
        largest = value.abs().amax([-2, -1] if value.dim() > 1 else [], keepdim=True)
        return value + self._error(largest.expand_as(value), terms)

    def _error_of_parts(self, a: torch.Tensor, b: torch.Tensor, unit: float) -> torch.Tensor:
        """Return the error of a product whose halves, quarters and eighths are rounded."""
        error = a.new_zeros(*a.shape[:-1], b.shape[-1])
        self._add_errors(error, (unit / self._unit) ** 2, a, b, HALVINGS)
        return error

    def _add_errors(
        self, error: torch.Tensor, terms: float, a: torch.Tensor, b: torch.Tensor, halvings: int
    ) -> torch.Tensor:
        """Add the errors of a product's parts to `error`, and return the product."""
        if not halvings or a.shape[-1] < 2 * MIN_TERMS:
            return a @ b
        pairs = zip(a.tensor_split(2, -1), b.tensor_split(2, -2), strict=True)
        halves = [self._add_errors(error, terms, *pair, halvings - 1) for pair in pairs]
        for half in halves:
            error.add_(self._error(half, terms))
        return halves[0].add_(halves[1])

    def _error(self, value: torch.Tensor, terms: float) -> torch.Tensor:
        """Return a random error of `value`: relative, and of a number that is flushed to zero."""
        flat = value.contiguous().view(-1)
        error = torch.empty_like(flat)
        for part, noise, out in self._parts(flat, error):
            self._error_of_part(part, noise, terms, out)
        return error.masked_fill_(~flat.isfinite(), 0.0).view(value.shape)

    def _error_of_part(
        self, part: torch.Tensor, noise: torch.Tensor, terms: float, out: torch.Tensor
    ) -> torch.Tensor:
        torch.abs(part, out=out)
        return out.mul_(self._scale(terms)).add_(SMALLEST).mul_(noise).mul_(part != 0)

    def _scale(self, terms: float) -> float:
        return self._unit * math.sqrt(max(terms, 1))

    def _disturbed(
        self, value: Any, terms: float, in_place: bool = False, held: Collection[int] | None = None
    ) -> Any:
        """Return a disturbed tensor, in the memory of `value` unless an argument holds it, too."""
        if not torch.is_tensor(value) or value.dtype is not torch.float64 or not value.numel():
            return value
        flat, scale = value.contiguous().view(-1), self._scale(terms)
        each = [torch.stack(part.abs().aminmax()) for part in _parts(flat)]
        ends = torch.stack(each).tolist()  # read in one transfer from a GPU
        far_from_zero = all(least >= FAR_FROM_ZERO for least, _ in ends)
        finite = all(math.isfinite(most) for _, most in ends)  # those of a mask are not
        own = finite and held is not None and flat.untyped_storage().data_ptr() not in held
        result = flat if own else torch.empty_like(flat)
        for part, noise, out in self._parts(flat, result):
            if far_from_zero:
                torch.addcmul(part, part, noise, value=scale, out=out)  # the same in one operation
            else:
                error = self._error_of_part(part, noise, terms, self._error_room[: len(part)])
                torch.add(error, part, out=out)
        if not finite:
            result = torch.where(flat.isfinite(), result, flat)
        return value.copy_(result.view(value.shape)) if in_place else result.view(value.shape)

    def _parts(
        self, flat: torch.Tensor, out: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Yield parts of two tensors, with noise for each."""
        for part, of_out in zip(_parts(flat), _parts(out), strict=True):
            start = self._random.randrange(len(self._noise) - len(part) + 1)
            yield part, self._noise[start : start + len(part)], of_out


def _parts(flat: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the parts of a tensor that are disturbed one after the other."""
    most = NOISE_ELEMENTS[flat.device.type] // 2
    if len(flat) > most:
        return torch.split(flat, most)
    return (flat,) if len(flat) else ()  # a split takes longer than the disturbance of one part


def _of_terms(result: Any, terms: float) -> Any:
    """Note on each tensor how many terms were added up for an element, 1 for no sum."""
    for value in result if isinstance(result, list | tuple) else (result,):
        if terms > 1 or hasattr(value, "terms"):
            value.terms = terms
    return result


def _interpolated(
    decomposed: Any, x: torch.Tensor, size: Sequence[int], *more: Any
) -> torch.Tensor:
    """Return what an interpolation gives, some planes at a time: it has eight tensors as large."""
    found = x.new_empty(*x.shape[:2], *size)
    planes = max(1, NOISE_ELEMENTS[x.device.type] // max(1, math.prod(size) * len(x)))
    for some, room in zip(*(torch.split(each, planes, 1) for each in (x, found)), strict=True):
        room.copy_(decomposed(some, size, *more))
    return found


def _each_gradient(*args: Any) -> tuple[Any, ...]:
    """Return the gradients of a convolution, each by a call: their sums differ in length."""
    wanted: Sequence[bool] = args[-1]
    masks = ([n == number for n in range(3)] for number in range(3))
    each = zip(wanted, masks, strict=True)
    return tuple(
        torch.ops.aten.convolution_backward(*args[:-1], mask)[mask.index(True)]
        if is_wanted
        else None
        for is_wanted, mask in each
    )


def size_of_roundings(
    reference: Callable[..., Any],
    given: Mapping[str, Any],
    generator: torch.Generator,
    rounded: Collection[int] = (),
) -> tuple[torch.Tensor, ...]:
    """Return the size of the error of each output, by element, in float32 roundings.

    `given` are the arguments by name, floating-point ones in float64. An output that is no
    floating-point tensor has no roundings: zeros. Of those whose numbers are in `rounded`, it is
    the largest change by MANY roundings: where they decide a whole number, either is right.
    """
    with sdpa_kernel(SDPBackend.MATH):  # fused attention has no decomposition
        elements = sum(value.numel() for value in given.values() if torch.is_tensor(value))
        (roundings, enough, exact), batched = _asked.get(), False
        if elements <= MAX_BATCHED or not exact:
            with _Recorder() as recorder:  # type: ignore[no-untyped-call]
                exact = outputs_of(reference(**given))
            batched = recorder.can_batch and elements <= MAX_BATCHED
        sizes = [torch.zeros(y.shape, dtype=torch.float64, device=y.device) for y in exact]
        if any(y.is_floating_point() for y in exact):
            enough = None if batched or rounded else enough
            right = enough and enough(tuple(sizes))  # within the roundings of the outputs alone
            for found in () if right else _probes(reference, given, generator, roundings, batched):
                for size, y, other in zip(sizes, exact, found, strict=True):
                    if y.is_floating_point():
                        _raise_to_change(size, y, other, UNIT * roundings)
                del found, other  # the next run needs their memory
                if enough and enough(tuple(sizes)):
                    break
        for number in rounded:
            sizes[number].zero_()
        for _ in range(MANY_PROBES // PROBES if rounded else 0):
            for found in _probes(reference, given, generator, MANY, batched):
                for number in rounded:
                    _raise_to_change(sizes[number], exact[number], found[number], 1.0)
    return tuple(sizes)


def _raise_to_change(
    size: torch.Tensor, exact: torch.Tensor, other: torch.Tensor, unit: float
) -> None:
    """Raise `size` to the change of each element in units that is larger."""
    flat = (_parts(each.reshape(-1)) for each in (size, exact, other))
    for part, y, changed in zip(*flat, strict=True):
        change = (changed.double() - y.double()).abs_().nan_to_num_(0.0, 0.0, 0.0)
        torch.maximum(part, change.div_(unit), out=part)


def _probes(
    reference: Callable[..., Any],
    given: Mapping[str, Any],
    generator: torch.Generator,
    roundings: float,
    batched: bool,
) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield the outputs of each disturbed run; where `batched`, they are made in one batch.

    Of others no more than those of one run are kept, which a GPU has memory for.
    """
    disturbed = Disturbed(generator, roundings)
    tensors = {name: value for name, value in given.items() if torch.is_tensor(value)}
    others = {name: value for name, value in given.items() if name not in tensors}
    if batched:

        def run(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return outputs_of(reference(**dict(zip(tensors, values, strict=True)), **others))

        stacked = [value.expand(PROBES, *value.shape).clone() for value in tensors.values()]
        try:
            with disturbed, warnings.catch_warnings():
                warnings.simplefilter("error")  # an operation that is not batched is slower so
                outputs = torch.vmap(run)(*stacked)
            yield from zip(*(y.unbind() for y in outputs), strict=True)
            return
        except (RuntimeError, UserWarning):  # an operation has no batching rule
            pass
    for _ in range(PROBES):
        with disturbed:
            found = [outputs_of(reference(**given))]
        yield found.pop()
