"""C and C++ sources: requested flags, rules, diagnostics, names, and this machine's compiler."""

from __future__ import annotations

import contextlib
import functools
import platform
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from evaluation.errors import Broken, Rejected
from evaluation.types import Diagnostic

COMPILER = "g++"

# Sources are untrusted. Each pattern takes time linear in the length: none restarts within a part
# that an earlier attempt has matched.
_FLAGS = re.compile(r"^\ufeff?[ \t]*//[ \t]*arena:[ \t]*flags[ \t]+(?P<flags>.+)$", re.MULTILINE)
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
MAX_MANGLED_BYTES, MAX_DEMANGLED_BYTES = 32 << 10, 256 << 10
"""Limits on all kernel names of a source."""
MAX_DEMANGLE_BYTES, MAX_DEMANGLE_SECONDS = 256 << 20, 2
"""Memory and processor time for demangling."""
_SYSTEM_CALLS = "fork|vfork|execve?|execl?p?|system|popen|ptrace|syscall|socket|dlopen|dlsym"

Rule = tuple[str, re.Pattern[str]]
"""A rule's name, and a pattern that breaks it."""

RULES: tuple[Rule, ...] = (
    ("system-call", re.compile(rf"\b(?:{_SYSTEM_CALLS})\s*\(")),
    ("system-call", re.compile(rf"{_ASM}(?:(?!{_ASM})[^;])*?\b(?:syscall|int\s+\$?0x80)\b")),
    ("library-wrapper", re.compile(r"#\s*include\s*<(?:torch|ATen|mkl|cblas|dnnl|oneapi)[/.\w]*>")),
    ("machine-files", re.compile(r"\"/(?:proc|dev|sys)/")),
)


def check_rules(files: Mapping[str, str], rules: Sequence[Rule]) -> None:
    """Raise Rejected, with the line, for the first pattern found outside comments."""
    for name, text in files.items():
        code = without_comments(text)
        for rule, pattern in rules:
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
    """Return the first error with its file and line; empty without one."""
    errors = [d for d in found if "error" in d.severity]
    return f"{errors[0].file}:{errors[0].line}: {errors[0].message}" if errors else ""


def demangled(symbols: Sequence[str]) -> Mapping[str, str]:
    """Return names as the source has them, without parameters unless two would be equal.

    Untrusted code chose them: many or long names stay mangled.
    """
    tool = shutil.which("cu++filt") or shutil.which("c++filt")
    text = "\n".join(symbols).encode()
    if tool and 0 < len(text) <= MAX_MANGLED_BYTES:
        for command in ([tool, "-p"], [tool]):
            names = _filter_lines(command, text)
            if len(set(names)) == len(symbols) == len(names):
                return dict(zip(symbols, names, strict=True))
    return dict(zip(symbols, symbols, strict=True))


def _filter_lines(command: Sequence[str], text: bytes) -> list[str]:
    """Return a command's output for each line; empty beyond the limits.

    A name of 230 bytes can stand for gigabytes.
    """
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin and process.stdout
        limits = {
            resource.RLIMIT_AS: MAX_DEMANGLE_BYTES,
            resource.RLIMIT_CPU: MAX_DEMANGLE_SECONDS,
        }
        for kind, limit in limits.items():
            resource.prlimit(process.pid, kind, (limit, limit))
        with contextlib.suppress(BrokenPipeError), process.stdin as names:
            names.write(text)
        output = process.stdout.read(MAX_DEMANGLED_BYTES + 1)
        process.kill()
    return (
        output.decode(errors="replace").splitlines() if len(output) <= MAX_DEMANGLED_BYTES else []
    )


@functools.cache
def compiler_version() -> str:
    """Return the compiler's version line. Raises Broken without a compiler."""
    if not shutil.which(COMPILER):
        raise Broken(f"{COMPILER} is not installed; install it (Debian: apt-get install g++)")
    output = subprocess.run([COMPILER, "--version"], capture_output=True, text=True).stdout
    return output.partition("\n")[0]


@functools.cache
def origin() -> str:
    """Return what two machines must share to use the same libraries: compiler, processor, libc."""
    query = [COMPILER, "-march=native", "-Q", "--help=target"]
    text = subprocess.run(query, capture_output=True, text=True).stdout
    return "\n".join((compiler_version(), "".join(platform.libc_ver()), text))


@functools.cache
def target() -> str:
    """Return the processor that -march=native means here."""
    if not shutil.which(COMPILER):
        return sys.platform
    query = [COMPILER, "-march=native", "-Q", "--help=target"]
    text = subprocess.run(query, capture_output=True, text=True).stdout
    match = re.search(r"-march=\s+(\S+)", text)
    return match[1] if match else "native"
