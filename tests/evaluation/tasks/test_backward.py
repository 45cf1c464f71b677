"""Tests of operators with a backward pass: formulas pass, and gradients gone wrong fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from evaluation.kinds.kernel.load import load_operator, load_task
from evaluation.tasks.float64 import widened
from evaluation.tasks.reference import ExpectedOutput, Reference
from evaluation.tasks.spec import find_operators, folder_of
from evaluation.types import Reason, Verdict
from tests.evaluation.conftest import judged

TASKS = Path(__file__).resolve().parents[3] / "tasks"
OPERATORS = [name for name in find_operators(TASKS) if name.endswith("_backward")]
SMALL = 50_000
Outputs = tuple[torch.Tensor, ...]


def layer_norm(x, weight, bias, gradient, eps) -> Outputs:
    scale = (x.var(-1, keepdim=True, correction=0) + eps).rsqrt()
    norm, g = (x - x.mean(-1, keepdim=True)) * scale, gradient * weight
    x_gradient = (g - g.mean(-1, keepdim=True) - norm * (g * norm).mean(-1, keepdim=True)) * scale
    return norm * weight + bias, x_gradient, (gradient * norm).sum(0), gradient.sum(0)


def softmax(x, gradient) -> Outputs:
    out = (x - x.amax(-1, keepdim=True)).exp()
    out = out / out.sum(-1, keepdim=True)
    return out, out * (gradient - (gradient * out).sum(-1, keepdim=True))


def swiglu(x, gradient) -> Outputs:
    gate, up = x.chunk(2, -1)
    s = 1 / (1 + (-gate).exp())
    gradients = gradient * up * s * (1 + gate * (1 - s)), gradient * gate * s
    return gate * s * up, torch.cat(gradients, -1)


def cross_entropy(logits, targets, gradient) -> Outputs:
    sums, tokens = logits.logsumexp(-1, keepdim=True), len(logits)
    chosen = F.one_hot(targets, logits.shape[1]).to(logits.dtype)
    loss = (sums[:, 0] - (logits * chosen).sum(-1)).mean()
    return loss, gradient / tokens * ((logits - sums).exp() - chosen)


def attention(q, k, v, gradient) -> Outputs:
    scale, tokens = q.shape[-1] ** -0.5, q.shape[1]
    later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    p = (q @ k.mT * scale).masked_fill(later, float("-inf")).softmax(-1)
    out = p @ v
    s = p * (gradient @ v.mT - (gradient * out).sum(-1, keepdim=True))
    return out, s @ k * scale, s.mT @ q * scale, p.mT @ gradient


def conv2d(x, weight, bias, gradient) -> Outputs:
    channels, height, width = x.shape[1:]
    filters = len(weight)
    places, of_places = F.unfold(x, 3, padding=1), gradient.flatten(2)
    rows = weight.flatten(1)
    out = (rows @ places + bias[:, None]).view_as(gradient)
    x_gradient = F.fold(rows.T @ of_places, (height, width), 3, padding=1)
    weight_gradient = (of_places @ places.mT).sum(0).view(filters, channels, 3, 3)
    return out, x_gradient, weight_gradient, gradient.sum((0, 2, 3))


FORMULAS: dict[str, Callable[..., Outputs]] = {
    f"{function.__name__}_backward": function
    for function in (layer_norm, softmax, swiglu, cross_entropy, attention, conv2d)
}


def forward_alone(outputs: Outputs) -> Outputs:
    """Leave out all gradients."""
    return (outputs[0], *(torch.zeros_like(y) for y in outputs[1:]))


def forgotten_scale(outputs: Outputs) -> Outputs:
    """Scale all gradients by what a mean or a square root would have been."""
    return (outputs[0], *(2 * y for y in outputs[1:]))


def unreduced(outputs: Outputs) -> Outputs:
    """Take a share of the last gradient, as of a batch whose other half is not added."""
    return (*outputs[:-1], outputs[-1] / 2)


def swapped_sign(outputs: Outputs) -> Outputs:
    return (outputs[0], *(-y for y in outputs[1:]))


def launches(name: str) -> Iterator[tuple[Reference, dict[str, torch.Tensor]]]:
    operator = load_operator(folder_of(TASKS, name))
    cases = [*operator.cases, *operator.domain.boundaries(("float32",))]
    for case in cases:
        if case.dtype == "float32" and operator.elements(case) <= SMALL:
            reference = Reference(operator, case)
            for number, family in enumerate(operator.input_families):
                yield reference, reference.drawn(family, number)


def is_right(outputs: Outputs, expected: dict[str, ExpectedOutput]) -> bool:
    pairs = zip(outputs, expected.values(), strict=True)
    return all(bool(((y.double() - e.exact).abs() <= e.allowed).all()) for y, e in pairs)


def test_six_operators_have_a_backward_pass_and_formulas_of_their_own() -> None:
    assert set(OPERATORS) == set(FORMULAS)


@pytest.mark.parametrize("name", OPERATORS)
def test_gradient_formula_in_float64_equals_the_gradient_of_the_judge(name: str) -> None:
    count = 0
    for reference, inputs in launches(name):
        found = FORMULAS[name](**widened(inputs), **reference.scalars)
        assert is_right(found, reference.expected(inputs)), reference.case
        count += 1
    assert count > 10


@pytest.mark.parametrize("wrong", [forward_alone, forgotten_scale, unreduced, swapped_sign])
@pytest.mark.parametrize("name", OPERATORS)
def test_wrong_gradient_beside_a_right_forward_pass_is_off(
    name: str, wrong: Callable[[Outputs], Outputs]
) -> None:
    seen = []
    for reference, inputs in launches(name):
        found = wrong(FORMULAS[name](**widened(inputs), **reference.scalars))
        expected = reference.expected(inputs)
        first = next(iter(expected))
        assert is_right(found[:1], {first: expected[first]}), "the forward pass is right"
        seen.append(is_right(found, expected))
    assert not all(seen)


BY_HAND = '''\
"""Layer norm and its gradients by hand."""


def layer_norm_backward(x, weight, bias, gradient, eps):
    wide, g = x.float(), gradient.float() * weight.float()
    scale = (wide.var(-1, keepdim=True, correction=0) + eps).rsqrt()
    norm = (wide - wide.mean(-1, keepdim=True)) * scale
    mean = (g * norm).mean(-1, keepdim=True)
    outputs = (
        norm * weight + bias,
        (g - g.mean(-1, keepdim=True) - norm * mean) * scale,
        (gradient.float() * norm).sum(0),
        gradient.float().sum(0),
    )
    return tuple(y.to(x.dtype) for y in outputs)
'''


@pytest.mark.usefixtures("in_a_hurry", "shared_fork_server")
@pytest.mark.parametrize(
    ("old", "new", "reason", "output"),
    [
        (".float().sum(0)", "[0].float().clone()", Reason.WRONG_VALUES, "bias_gradient"),
        (".float().sum(0)", ".float().clone()", Reason.WRONG_SHAPE, "bias_gradient"),
        (" * weight.float()", "", Reason.WRONG_VALUES, "x_gradient"),
        ("(gradient.float() * norm)", "norm", Reason.WRONG_VALUES, "weight_gradient"),
    ],
    ids=["one row of the batch", "not reduced", "forgotten scale", "of the forward alone"],
)
def test_submission_with_one_wrong_gradient_is_refused_by_its_name(
    old: str, new: str, reason: Reason, output: str, cache: Path
) -> None:
    task = load_task(TASKS, "layer_norm_backward", "torch-to-torch")
    assert old in BY_HAND
    report = judged(task, BY_HAND.replace(old, new, 1), cache)
    assert (report.verdict, report.reason) == (Verdict.FAILED, reason), report.message
    assert output in report.message
