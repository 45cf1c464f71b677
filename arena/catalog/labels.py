"""Labels of suites and of families of models, as filters and headings show them."""

from __future__ import annotations

from arena.catalog.models import NATIVE, Operator

FAMILY_TITLES = {
    "llm": "Language models",
    "linear_attn": "Linear attention and state space",
    "vision": "Images and video",
    "speech": "Speech",
    "multimodal": "Multimodal",
    "edge": "Edge vision",
    "3d_robotics": "3D, robotics and proteins",
    "recsys": "Retrieval, recommenders and time series",
    "world_models": "World models",
}
"""Titles by the names that operators have for families; an imported task may name others."""


def family_title(name: str) -> str:
    """Return the title of a family of operators."""
    return FAMILY_TITLES.get(name) or _sentence_case(name)


def suite_titles() -> dict[str, str]:
    """Return the title of each suite: that of its source, else its own name."""
    rows = Operator.objects.order_by().values_list("suite", "source__title").distinct()
    found = {slug: title or _sentence_case(slug) for slug, title in rows if slug}
    return {NATIVE: "Kernel Arena", **found}


def _sentence_case(name: str) -> str:
    words = name.replace("_", " ").replace("-", " ")
    return words[:1].upper() + words[1:]
