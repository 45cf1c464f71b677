"""Tests of archives: what is refused, and that nothing of a refused one is kept."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Mapping

import pytest

from arena.curation import archives, files
from arena.curation.files import BadFiles
from arena.curation.starter import starter_draft

TASK = starter_draft("vector_sum", "Vector sum")


def zipped(entries: Mapping[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(entries: Mapping[str, bytes | str], *more: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in entries.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info in more:
            archive.addfile(info)
    return buffer.getvalue()


def in_folder(folder: str = "vector_sum") -> dict[str, str]:
    return {f"{folder}/{path}": text for path, text in TASK.items()}


PACKERS: dict[str, Callable[[Mapping[str, bytes | str]], bytes]] = {
    "zip": zipped,
    "tar": tarred,
    "tar.gz": lambda entries: gzip.compress(tarred(entries)),
    "tar.bz2": lambda entries: bz2.compress(tarred(entries)),
    "tar.xz": lambda entries: lzma.compress(tarred(entries)),
}


@pytest.mark.parametrize("kind", PACKERS)
def test_archive_of_a_folder_is_read(kind: str) -> None:
    packed = PACKERS[kind]({**in_folder(), "__MACOSX/vector_sum/._x": "", "vector_sum/x.pyc": ""})
    assert files.folders_of(archives.files_in(packed)) == {"vector_sum": dict(sorted(TASK.items()))}


def test_zip_with_backslashes_is_read() -> None:
    entries = {"vector_sum\\": "", "vector_sum\\tests\\": ""}
    entries |= {name.replace("/", "\\"): text for name, text in in_folder().items()}
    found = files.folders_of(archives.files_in(zipped(entries)))
    assert found == {"vector_sum": dict(sorted(TASK.items()))}


def test_archive_without_a_folder_has_no_name() -> None:
    assert set(files.folders_of(archives.files_in(zipped(TASK)))) == {""}


def test_archive_of_two_folders_is_two_tasks() -> None:
    packed = zipped({**in_folder("tasks/one"), **in_folder("tasks/two")})
    assert set(files.folders_of(archives.files_in(packed))) == {"one", "two"}


def link(kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo("vector_sum/prompt.md")
    info.type, info.linkname = kind, "/etc/passwd"
    return info


def zip_link() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo("vector_sum/prompt.md")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    return buffer.getvalue()


def lying_bomb() -> bytes:
    """Return a zip whose entry states one byte and unpacks to eight megabytes."""
    packed = bytearray(zipped({"vector_sum/task.toml": b"\0" * (8 << 20)}))
    for header, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        place = packed.index(header) + offset
        packed[place : place + 4] = (1).to_bytes(4, "little")
    return bytes(packed)


def same_twice() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("vector_sum/task.toml", "a")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("vector_sum/task.toml", "b")
    return buffer.getvalue()


# Packed when its test runs: workers collect every file.
@pytest.mark.parametrize(
    ("pack", "message"),
    [
        (lambda: b"", "cannot be read"),
        (lambda: b"PK\x03\x04 and no more", "cannot be read"),
        (lambda: b"\x1f\x8b\x08 and no more", "cannot be read"),
        (lambda: b"\xfd7zXZ\0 and no more", "cannot be read"),
        (lambda: zipped(in_folder())[:-200], "cannot be read"),
        (lambda: gzip.compress(tarred(in_folder()))[:-900], "cannot be read"),
        (lambda: b"x" * (archives.MAX_UPLOAD_BYTES + 1), "The limit is 4194304 bytes"),
        (lambda: zipped({"vector_sum/task.toml": b"\0" * (1 << 20)}), "unpacks to more than"),
        (lambda: gzip.compress(b"\0" * (20 << 20)), "unpacks to too many bytes"),
        (lambda: lzma.compress(b"\0" * (20 << 20)), "unpacks to too many bytes"),
        (
            lambda: zipped({f"a/{n}": b"x" * 250_000 for n in range(80)}),
            "unpacks to too many bytes",
        ),
        (lambda: zipped({f"a/{n}": "" for n in range(1_501)}), "more than 1500 entries"),
        (lambda: tarred({f"a/{n}": "" for n in range(1_501)}), "more than 1500 entries"),
        (lambda: zipped({"../task.toml": ""}), "leaves its folder"),
        (lambda: zipped({"vector_sum/../../task.toml": ""}), "leaves its folder"),
        (lambda: zipped({"/etc/task.toml": ""}), "leaves its folder"),
        (lambda: zipped({"C:/task.toml": ""}), "leaves its folder"),
        (lambda: zipped({"a\\..\\..\\task.toml": ""}), "leaves its folder"),
        (lambda: zipped({"C:\\task.toml": ""}), "leaves its folder"),
        (lambda: zipped({"a\\task.toml": "", "a/task.toml": ""}), "Each name may occur once"),
        (lambda: tarred({"../task.toml": ""}), "leaves its folder"),
        (lambda: tarred({"a\\..\\task.toml": ""}), "leaves its folder"),
        (lambda: tarred({}, link()), "a link or a device"),
        (lambda: tarred({}, link(tarfile.LNKTYPE)), "a link or a device"),
        (lambda: tarred({}, link(tarfile.CHRTYPE)), "a link or a device"),
        (zip_link, "a link or a device"),
        (same_twice, "Each name may occur once"),
        (lambda: zipped({"a/task.toml": "", "a/TASK.toml": ""}), "Each name may occur once"),
        (lambda: zipped(in_folder(), zipfile.ZIP_LZMA), "packed in a rare way"),
    ],
)
def test_bad_archive_is_refused(pack: Callable[[], bytes], message: str) -> None:
    with pytest.raises(BadFiles) as refused:
        archives.files_in(pack())
    assert message in refused.value.text


def test_zip_that_lies_about_a_size_is_refused() -> None:
    with pytest.raises(BadFiles):
        files.folders_of(archives.files_in(lying_bomb()))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"vector_sum/prompt.md": "x"}, "There is no task.toml"),
        ({"Vector-Sum/task.toml": ""}, "is no name of a task"),
        ({"a1/task.toml": "", "b/a1/task.toml": ""}, "have the same name"),
        ({"a1/task.toml": "", "README": ""}, "in no folder with a task.toml"),
        ({"a1/task.toml": "", "a1/run.sh": ""}, "is no file of a task"),
        ({"a1/task.toml": "", "a1/honest/deep/x.cpp.cpp": ""}, "is no file of a task"),
        ({"a1/task.toml": b"\xff"}, "a1/task.toml is not UTF-8: byte 0"),
        ({"a1/task.toml": "a\0b"}, "has a byte of value zero"),
        ({"a1/task.toml": "x" * (256 << 10) + "x"}, "262144 bytes at most"),
        ({"a1/task.toml": "", **{f"a1/honest/{n}.cpp.cpp": "" for n in range(400)}}, "400 at most"),
    ],
)
def test_folder_that_is_no_task_is_refused(entries: dict[str, bytes | str], message: str) -> None:
    named = [(k, v.encode() if isinstance(v, str) else v) for k, v in entries.items()]
    with pytest.raises(BadFiles) as refused:
        files.folders_of(named)
    assert message in refused.value.text
