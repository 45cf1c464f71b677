"""The CPU of this machine: data from /proc and /sys, peaks from a C++ program."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.bench.devices.device import Device, Level, slug_of
from evaluation.code.building.native import compiler_version
from evaluation.code.cache_folder import replace_text
from evaluation.device_kind import CPU, candidate_cores
from evaluation.errors import Broken
from evaluation.sandbox.features import isolation_features

KIND = CPU
DEFAULT_CACHE_BYTES = 32 << 20
"""Bytes of last-level cache assumed where the machine does not report it."""
PEAKS = Path(__file__).with_name("peaks.cpp")
SYSTEM_CPUS = Path("/sys/devices/system/cpu")
MAX_MEASURE_SECONDS = 120
MAX_ROUNDS, MIN_RISE = 6, 1.03


def devices(cache: Path, again: bool = False) -> Sequence[Device]:
    """Return the one CPU that processes run on."""
    info = _cpuinfo()
    total, cores = os.cpu_count() or 1, candidate_cores()
    flags, widest = _vectors(info)
    name = processor_name()
    slug = slug_of(f"{name} {total}c")
    caches = cache_bytes(SYSTEM_CPUS, cores)
    fingerprint = {
        "name": name,
        "cores": total,
        "threads": len(cores),
        "caches": caches,
        "microcode": info.get("microcode", ""),
        "virtual": "hypervisor" in flags,
        "kernel": platform.release(),
        "compiler": compiler_version(),
    }
    levels, tflops = _measured(cache, fingerprint, caches, cores, again)
    return [
        Device(
            slug=slug,
            kind=KIND,
            vendor=info.get("vendor_id", "unknown"),
            name=name,
            arch=f"{platform.machine()} {widest[0]}" if widest else platform.machine(),
            queue=f"hw.{slug}",
            cores=total,
            threads=len(cores),
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            last_level_cache_bytes=max(caches.values(), default=DEFAULT_CACHE_BYTES),
            levels=levels,
            peaks={
                **{f"{level.name.lower()}_gbps": level.gbps for level in levels},
                "float32_tflops": tflops,
            },
            isolation=dataclasses.asdict(isolation_features()),
            fingerprint=fingerprint,
        )
    ]


def state(device: Device) -> dict[str, Any]:
    """Return nothing: a CPU's state is readable by its owner only."""
    return {}


def processor_name() -> str:
    """Return the name of this machine's processor, by which results call it."""
    info = _cpuinfo()
    return name_of(info.get("model name", platform.machine()), _vectors(info)[1])


def name_of(model: str, widest: Sequence[str]) -> str:
    """Return the name of a processor.

    A virtual machine may hide the model behind a family as "AMD EPYC". Its widest vectors then tell
    apart what else would be compared on one board.
    """
    return f"{model} ({widest[0]})" if widest and not re.search(r"\d", model) else model


def _vectors(info: Mapping[str, str]) -> tuple[set[str], Sequence[str]]:
    """Return the features of a processor, and of its vector instructions the widest first."""
    flags = set(info.get("flags", info.get("Features", "")).split())
    known = ("avx512f", "avx2", "avx", "sse4_2", "sve", "asimd")
    return flags, [isa for isa in known if isa in flags]


def _cpuinfo() -> Mapping[str, str]:
    """Return the first processor's entries of /proc/cpuinfo."""
    first = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def cache_bytes(cpus: Path, cores: Iterable[int]) -> dict[str, int]:
    """Return the bytes of data cache of `cores` together, by level, smallest first.

    `cpus` has the layout of /sys/devices/system/cpu. A shared cache counts once.
    """
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes: dict[tuple[str, str], int] = {}
    for core in cores:
        for folder in cpus.glob(f"cpu{core}/cache/index*"):
            kind, level, size, shared = (
                (folder / file).read_text().strip()
                for file in ("type", "level", "size", "shared_cpu_list")
            )
            if kind != "Instruction":
                sizes[f"L{level}", shared] = int(size[:-1]) * units[size[-1]]
    totals: Counter[str] = Counter()
    for (level, _), count in sizes.items():
        totals[level] += count
    return dict(sorted(totals.items()))


def _measured(
    cache: Path,
    fingerprint: Mapping[str, Any],
    caches: Mapping[str, int],
    cores: Sequence[int],
    again: bool,
) -> tuple[tuple[Level, ...], float]:
    """Return the levels with bandwidth, and TFLOP/s: the best ever measured of one fingerprint."""
    identity = json.dumps(fingerprint, sort_keys=True) + PEAKS.read_text(encoding="utf-8")
    path = cache / "peaks" / f"cpu-{hashlib.sha256(identity.encode()).hexdigest()[:20]}.json"
    if again or not path.is_file():
        # Half of a cache is surely held by it; four times the last one surely is not.
        sets = [size // 2 for size in caches.values()]
        sets.append(4 * max(caches.values(), default=DEFAULT_CACHE_BYTES))
        known = json.loads(path.read_text()) if path.is_file() else [0.0] * (len(sets) + 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, json.dumps(_measure([s // len(cores) for s in sets], cores, known)))
    *gbps, tflops = json.loads(path.read_text())
    sizes = (*caches.items(), ("memory", 0))
    levels = (Level(name, size, rate) for (name, size), rate in zip(sizes, gbps, strict=True))
    return tuple(levels), tflops


def _measure(sets: Sequence[int], cores: Sequence[int], known: Sequence[float]) -> list[float]:
    """Return GB/s for each working set of so many bytes a core, then TFLOP/s, not below `known`.

    A round takes about a second. Rounds continue while the peaks still rise, as on a busy machine.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/peaks"
        _run(["g++", "-O3", "-march=native", "-fopenmp", str(PEAKS), "-o", program], cores)
        best = list(known)
        for _ in range(MAX_ROUNDS):
            rates = [float(line) for line in _run([program, *map(str, sets)], cores).split()]
            rising = any(new > MIN_RISE * old for new, old in zip(rates, best, strict=True))
            best = [max(pair) for pair in zip(rates, best, strict=True)]
            if not rising:
                break
        return best


def _run(argv: Sequence[str], cores: Sequence[int]) -> str:
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=MAX_MEASURE_SECONDS,
        env={**os.environ, "OMP_NUM_THREADS": str(len(cores))},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    if done.returncode:
        raise Broken(f"cannot measure this CPU: {' '.join(argv)}: {done.stderr[-500:]}")
    return done.stdout
