"""Tests of the fit of a tolerance: an error of `reference.py` is the author's, and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.__main__ import NOT_PASSED, main
from evaluation.kinds.kernel.admission import fit

TOML = """\
title = "Clipped values"
category = "Math"
families = ["vision"]
arguments = [
    { name = "x", role = "input", shape = ["rows"] },
    { name = "out", role = "output", shape = ["rows"] },
]
[domain]
dtypes = ["float32"]
rows = [1, 64]
[models]
one = { rows = 48 }
two = { rows = 16 }
"""
REFERENCE = '''"""Clip `x` to the range from 0 to 6."""


def reference(x):
    clipped = {}
    return clipped
'''


def written(root: Path, name: str, expression: str) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "task.toml").write_text(TOML)
    (folder / "reference.py").write_text(REFERENCE.format(expression))
    return folder


def test_error_of_a_reference_is_refused_with_its_line_and_others_are_fitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = written(tmp_path, "wrong", "x.clmp(0, 6)")
    right = written(tmp_path, "right", "x.clamp(0, 6)")
    assert main(["fit", "wrong", "right", "--tasks", str(tmp_path)]) == NOT_PASSED
    shown = capsys.readouterr()
    place = f"wrong: refused: {wrong / 'reference.py'}: line 5: AttributeError: "
    assert shown.err.startswith(place) and "clmp" in shown.err
    assert "Traceback" not in shown.err
    assert shown.out.startswith("right: float32 c1 4 c2 ")
    assert (right / "fitted.toml").is_file() and not (wrong / "fitted.toml").exists()


def test_error_of_the_fit_itself_is_not_the_authors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path, "right", "x.clamp(0, 6)")
    monkeypatch.delitem(fit.C1, "float32")
    with pytest.raises(KeyError, match="float32"):
        fit.fit(folder)
