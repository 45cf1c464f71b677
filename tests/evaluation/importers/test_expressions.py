"""Tests of closed forms of dimensions."""

from __future__ import annotations

import itertools

import pytest

from evaluation.importers.sandboxed.expressions import closed_form, is_plain

SIZES = [{"h": h, "c": c} for h, c in itertools.product((7, 8, 9, 10, 11, 12, 64), (4, 5, 8))]


@pytest.mark.parametrize(
    ("rule", "expression"),
    [
        (lambda h, c: 5, "5"),
        (lambda h, c: h, "h"),
        (lambda h, c: 3 * h * c, "3*h*c"),
        (lambda h, c: (h - 3) // 2 + 1, "(h - 1) // 2"),
        (lambda h, c: 2 * h - 1, "2 * h - 1"),
        (lambda h, c: h // 2, "h // 2"),
        (lambda h, c: h + 2 * c + 1, "h + 2 * c + 1"),
    ],
)
def test_closed_form_of_observed_sizes_is_found(rule, expression):
    samples = [(sizes, rule(**sizes)) for sizes in SIZES]
    assert closed_form(samples, ["h", "c"]) == expression


def test_a_quotient_of_multiples_has_their_divisor():
    samples = [({"t": 64 * count}, count) for count in range(1, 32)]
    assert closed_form(samples, ["t"]) == "t // 64"
    samples = [({"t": 128 * count}, count) for count in range(1, 32)]
    assert closed_form(samples, ["t"]) == "t // 128"


def test_a_size_without_a_closed_form_has_none():
    samples = [(sizes, sizes["h"] ** 2 + sizes["c"]) for sizes in SIZES]
    assert closed_form(samples, ["h", "c"]) == ""


def test_products_are_plain_and_quotients_are_not():
    assert is_plain("3*h*c") and not is_plain("h // 2")
