"""What a compiler leaves behind is untrusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.code.building.compile_jobs import Job, compile_all, library_name
from evaluation.errors import BuildError
from evaluation.sandbox.features import isolation_features

LIBRARY, LISTING = library_name("float32"), "kernel.ptx"


@pytest.fixture(autouse=True)
def isolated() -> None:
    if not isolation_features().any:
        pytest.skip("this machine has neither namespaces nor Landlock")


def compiled(script: str, folder: Path) -> dict[str, str]:
    """Return the listings of a compiler that is this shell script; "$1" is its output."""
    argv = ("/bin/sh", "-c", script)
    job = Job("sh", "any", argv, lambda text: ([], {}), LIBRARY, LISTING)
    folder.mkdir()
    (output,) = compile_all([job], {"kernel.cu": ""}, folder, (), 60, "entry")
    return dict(output.listings)


def test_listing_beside_the_output_is_kept(tmp_path: Path) -> None:
    script = f'echo library > "$1"; echo "// of {{work}}/kernel" > {{work}}/{LISTING}'
    assert compiled(script, tmp_path / "build") == {LISTING: "// of kernel\n"}
    assert (tmp_path / "build" / LIBRARY).read_text() == "library\n"


@pytest.mark.parametrize("kind", ["ln -s {secret}", "mkfifo"])
def test_listing_that_is_no_file_is_left_out(kind: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the seed")
    make = kind.format(secret=secret)
    script = f'echo library > "$1"; {make} {{work}}/{LISTING}'
    assert compiled(script, tmp_path / "build") == {}


def test_library_that_is_a_link_fails_the_build(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the seed")
    with pytest.raises(BuildError):
        compiled(f'ln -s {secret} "$1"', tmp_path / "build")
    assert not (tmp_path / "build" / LIBRARY).is_symlink()
