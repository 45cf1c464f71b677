"""The client as a wheel, which `pip install` and `uvx --from` take from any arena.

Source: the binary distribution format, https://packaging.python.org/specifications/.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import tomllib
import zipfile
from dataclasses import dataclass

from django.conf import settings

DISTRIBUTION = "kernel_arena_client"
PYTHON = ">=3.10"
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""Time of every file: equal sources make an equal wheel."""


@dataclass(frozen=True)
class Wheel:
    """Name and content of the file. The name has a digest of the sources in its version."""

    name: str
    content: bytes


@functools.cache
def wheel() -> Wheel:
    """Return the wheel of the client beside this arena."""
    folder = settings.BASE_DIR / "arena_client"
    files = {f"arena_client/{path.name}": path.read_bytes() for path in sorted(folder.glob("*.py"))}
    digest = hashlib.sha256(b"".join(files.values())).hexdigest()[:8]
    project = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text(encoding="utf-8"))
    version = f"{project['project']['version']}+{digest}"
    about = f"{DISTRIBUTION}-{version}.dist-info"
    files |= {
        f"{about}/METADATA": (
            f"Metadata-Version: 2.1\nName: kernel-arena-client\nVersion: {version}\n"
            "Summary: Submit kernels to an arena, and bring agents of your own.\n"
            f"License: Apache-2.0\nRequires-Python: {PYTHON}\n"
        ).encode(),
        f"{about}/WHEEL": (
            b"Wheel-Version: 1.0\nGenerator: kernel-arena\nRoot-Is-Purelib: true\n"
            b"Tag: py3-none-any\n"
        ),
        f"{about}/entry_points.txt": b"[console_scripts]\narena = arena_client.__main__:main\n",
    }
    rows = [f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in files.items()]
    files[f"{about}/RECORD"] = "".join([*rows, f"{about}/RECORD,,\n"]).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path, LONG_AGO), data, zipfile.ZIP_DEFLATED)
    return Wheel(f"{DISTRIBUTION}-{version}-py3-none-any.whl", packed.getvalue())


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
