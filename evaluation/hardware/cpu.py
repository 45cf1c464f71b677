"""The processor of this machine: what /proc and /sys say of it, and what a small C++ program
measures.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation import sandbox
from evaluation.arm import contestant_cores
from evaluation.builds import replace_text
from evaluation.errors import Broken
from evaluation.hardware import Device, Level
from evaluation.languages.cpp import compiler_version

PEAKS = Path(__file__).with_name("peaks.cpp")
MEASURE_SECONDS = 120


def devices(cache: Path) -> Sequence[Device]:
    """The one processor that contestants run on."""
    info = _cpuinfo()
    cores = os.cpu_count() or 1
    name, threads = info.get("model name", platform.machine()), len(contestant_cores())
    slug = re.sub(r"[^a-z0-9]+", "-", f"{name} {cores}c".lower()).strip("-")
    caches = _caches()
    measured = _measured(cache, f"{name} {cores} {threads} {platform.release()}", caches, threads)
    levels = [
        Level(level, size, measured[level])
        for level, size in (*caches.items(), ("memory", 0))
        if level in measured
    ]
    flags = set(info.get("flags", info.get("Features", "")).split())
    widest = [isa for isa in ("avx512f", "avx2", "avx", "sse4_2", "sve", "asimd") if isa in flags]
    return [
        Device(
            slug=slug,
            kind="cpu",
            vendor=info.get("vendor_id", "unknown"),
            name=name,
            arch=f"{platform.machine()} {widest[0]}" if widest else platform.machine(),
            queue=f"hw.{slug}",
            cores=cores,
            threads=threads,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            last_level_cache_bytes=max(caches.values(), default=32 << 20),
            levels=tuple(levels),
            peaks={"float32": measured["tflops"]},
            isolation=dataclasses.asdict(sandbox.walls()),
            fingerprint={
                "name": name,
                "cores": cores,
                "threads": threads,
                "compiler": compiler_version(),
            },
        )
    ]


def _cpuinfo() -> Mapping[str, str]:
    """The first processor's entries of /proc/cpuinfo."""
    first = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _caches() -> dict[str, int]:
    """Bytes of the first core's data caches by level, smallest first."""
    caches: dict[str, int] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if (folder / "type").read_text().strip() != "Instruction":
            size = (folder / "size").read_text().strip()
            units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
            caches[f"L{(folder / 'level').read_text().strip()}"] = int(size[:-1]) * units[size[-1]]
    return caches


def _measured(
    cache: Path, machine: str, caches: Mapping[str, int], threads: int
) -> dict[str, float]:
    """GB/s by level and TFLOP/s, measured once for this machine, compiler and program."""
    source = PEAKS.read_text(encoding="utf-8")
    key = hashlib.sha256("\n".join((machine, compiler_version(), source)).encode()).hexdigest()[:20]
    kept = cache / "peaks" / f"cpu-{key}.json"
    if kept.is_file():
        found: dict[str, float] = json.loads(kept.read_text())
        return found
    kept.parent.mkdir(parents=True, exist_ok=True)
    sets = [f"{level}:{size // 2}" for level, size in caches.items()]
    sets.append(f"memory:{4 * max(caches.values(), default=32 << 20)}")
    measured = _run(["-O3", "-march=native", "-fopenmp"], sets, threads)
    replace_text(kept, json.dumps(measured))
    return measured


def _run(flags: Sequence[str], sets: Sequence[str], threads: int) -> dict[str, float]:
    cores = contestant_cores()
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/peaks"
        for argv in (["g++", *flags, str(PEAKS), "-o", program], [program, *sets]):
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                timeout=MEASURE_SECONDS,
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
                preexec_fn=lambda: os.sched_setaffinity(0, cores),
            )
            if done.returncode:
                raise Broken(
                    f"cannot measure this processor: {' '.join(argv)}: {done.stderr[-500:]}"
                )
    result: dict[str, Any] = json.loads(done.stdout)
    return {name: float(value) for name, value in result.items()}
