"""Shared code of the languages behind a C interface: flags, rules, diagnostics and the struct."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.errors import Broken, Rejected
from evaluation.types import Argument, BufferSet, Diagnostic

COMPILER = "g++"

# What a stranger wrote is read in a time that grows with its length alone: no pattern begins anew
# where another attempt has been.
_FLAGS = re.compile(r"^[ \t]*//[ \t]*arena:[ \t]*flags[ \t]+(?P<flags>.+)$", re.MULTILINE)
_COMMENT = re.compile(
    r"\"(?:\\.|[^\"\\\n])*\\?(?:\"|(?=\n)|\Z)"
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*\\?(?:'|(?=\n)|\Z)"  # no digit separator
    r"|//[^\n]*|/\*.*?(?:\*/|\Z)",
    re.DOTALL,
)
_ASM = r"\b(?:asm|__asm__|__asm)\b"
_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^:\s]+):(?P<line>\d+):(?:\d+:)? "
    r"(?P<severity>fatal error|error|warning): (?P<text>.*)$",
    re.MULTILINE,
)
MAX_NAMED, MAX_WRITTEN_BYTES = 32 << 10, 256 << 10
"""Bytes of all kernel names of a source, mangled and demangled."""
MAX_TAKEN, MAX_SECONDS = 256 << 20, 2
"""Memory and processor time for demangling."""
_SYSTEM_CALLS = "fork|vfork|execve?|execl?p?|system|popen|ptrace|syscall|socket|dlopen|dlsym"

Breach = tuple[str, re.Pattern[str]]
"""A rule, and the pattern that breaks it."""

BREACHES: tuple[Breach, ...] = (
    ("system-call", re.compile(rf"\b(?:{_SYSTEM_CALLS})\s*\(")),
    (
        "system-call",
        re.compile(rf"{_ASM}(?:(?!{_ASM})[^;])*?\b(?:syscall|int\s+\$?0x80)\b"),
    ),
    ("library-wrapper", re.compile(r"#\s*include\s*<(?:torch|ATen|mkl|cblas|dnnl|oneapi)[/.\w]*>")),
    ("machine-files", re.compile(r"\"/(?:proc|dev|sys)/")),
)


def refuse_breaches(files: Mapping[str, str], breaches: Sequence[Breach]) -> None:
    """Raise Rejected, with the line, for the first pattern found outside comments."""
    for name, text in files.items():
        code = without_comments(text)
        for rule, pattern in breaches:
            if match := pattern.search(code):
                line = code.count("\n", 0, match.start()) + 1
                found = " ".join(match.group().split())
                raise Rejected(rule, f"{name}:{line}: `{found}` has no place in a kernel")


def source_flags(source: str, allowed: re.Pattern[str], listed: str) -> list[str]:
    """Return the flags that a source requests by `// arena: flags ...`.

    Raises: Rejected for one that is not allowed, with the list of those that are.
    """
    flags = [flag for match in _FLAGS.finditer(source) for flag in match["flags"].split()]
    for flag in flags:
        if not allowed.fullmatch(flag):
            raise Rejected(
                "compiler-flag", f"`{flag}` is not among the flags a source may ask for: {listed}"
            )
    return flags


def without_comments(source: str) -> str:
    """Return the source with comments blanked and lines kept."""

    def blank(match: re.Match[str]) -> str:
        return match.group() if match.group()[0] in "\"'" else "\n" * match.group().count("\n")

    return _COMMENT.sub(blank, source)


def diagnostics(text: str) -> tuple[Diagnostic, ...]:
    """Return the messages of gcc or clang."""
    return tuple(
        Diagnostic(m["file"], int(m["line"]), m["severity"], m["text"])
        for m in _DIAGNOSTIC.finditer(text)
    )


def first_error(found: Sequence[Diagnostic]) -> str:
    """Return the first error with its place; empty without one."""
    errors = [d for d in found if "error" in d.severity]
    return f"{errors[0].file}:{errors[0].line}: {errors[0].message}" if errors else ""


def demangled(symbols: Sequence[str]) -> Mapping[str, str]:
    """Return names as the source has them, without parameters unless two would be equal.

    Untrusted code chose them: many or long names stay mangled.
    """
    tool = shutil.which("cu++filt") or shutil.which("c++filt")
    text = "\n".join(symbols).encode()
    if tool is None or not 0 < len(text) <= MAX_NAMED:
        return dict(zip(symbols, symbols, strict=True))
    for command in ([tool, "-p"], [tool]):
        answers = _written_out(command, text)
        if len(set(answers)) == len(symbols) == len(answers):
            return dict(zip(symbols, answers, strict=True))
    return dict(zip(symbols, symbols, strict=True))


def _written_out(command: Sequence[str], text: bytes) -> list[str]:
    """Return a command's output for each line; empty beyond the limits.

    A name of 230 bytes can stand for gigabytes.
    """
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin and process.stdout
        for limit, most in ((resource.RLIMIT_AS, MAX_TAKEN), (resource.RLIMIT_CPU, MAX_SECONDS)):
            resource.prlimit(process.pid, limit, (most, most))
        with contextlib.suppress(BrokenPipeError), process.stdin as names:
            names.write(text)
        said = process.stdout.read(MAX_WRITTEN_BYTES + 1)
        process.kill()
    return said.decode(errors="replace").splitlines() if len(said) <= MAX_WRITTEN_BYTES else []


def struct_table(arguments: Sequence[Argument], slots: Sequence[BufferSet]) -> Any:
    """Return one struct of the generated header for each slot, as a ctypes array.

    The tensors must outlive it.
    """
    fields = _fields(arguments, slots[0])
    struct: Any = type("Arguments", (ctypes.Structure,), {"_fields_": list(fields.items())})
    table = (struct * len(slots))()
    for row, slot in zip(table, slots, strict=True):
        for name in fields:
            value = slot[name]
            setattr(row, name, value if isinstance(value, (int, float)) else value.data_ptr())
    return table


def _fields(arguments: Sequence[Argument], slot: BufferSet) -> dict[str, type[Any]]:
    """Return the fields of the header's struct in order: pointers, then sizes, then scalars."""
    named = {argument.name: argument for argument in arguments}
    fields: dict[str, type[Any]] = {
        a.name: ctypes.c_void_p for a in arguments if a.role != "scalar"
    }
    fields |= {name: ctypes.c_int64 for name in slot if name not in named}
    for argument in arguments:
        if argument.role == "scalar":
            fields[argument.name] = ctypes.c_int64 if argument.dtype == "int64" else ctypes.c_float
    return fields


@functools.cache
def compiler_version() -> str:
    """Return the compiler's version line. Raises Broken without a compiler."""
    if not shutil.which(COMPILER):
        raise Broken(f"{COMPILER} is not installed; install it (Debian: apt-get install g++)")
    return subprocess.run([COMPILER, "--version"], capture_output=True, text=True).stdout.partition(
        "\n"
    )[0]


@functools.cache
def target() -> str:
    """Return the processor that -march=native means here."""
    if not shutil.which(COMPILER):
        return sys.platform
    query = [COMPILER, "-march=native", "-Q", "--help=target"]
    text = subprocess.run(query, capture_output=True, text=True).stdout
    match = re.search(r"-march=\s+(\S+)", text)
    return match[1] if match else "native"
