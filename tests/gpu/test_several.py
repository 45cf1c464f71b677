"""Machines with several GPUs: each verdict uses one GPU, and its processes can open no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from evaluation.bench.devices import detect
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.process.limits import ProcessLimits
from evaluation.bench.timing.clock import WindowClock
from evaluation.code.building import nvcc
from evaluation.sandbox.features import isolates_ranks
from tests.gpu.submissions import TASKS

ROOT = Path(__file__).resolve().parents[2]
LISTS_GPUS = """\
import torch
import triton
import triton.language as tl


@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n), at < n)


def softmax(x, out):
    n = x.numel()
    copy[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256)
    if x.is_cuda:
        own = torch.cuda.get_device_properties(0).uuid
        try:
            other = torch.cuda.get_device_properties(1).uuid
        except AssertionError:
            other = "none"
        raise RuntimeError(f"sees {own} and {other}")
"""


@pytest.mark.gpu
@pytest.mark.slow
def test_candidate_process_sees_only_the_gpu_of_its_verdict(tmp_path: Path) -> None:
    if len(nvcc.capabilities()) < 2:
        pytest.skip("one GPU is here")
    (tmp_path / "softmax.py").write_text(LISTS_GPUS)
    judge = ("judge", "softmax", "triton-to-triton", str(tmp_path / "softmax.py"), "--json")
    command = (sys.executable, "-m", "evaluation", *judge, "--cache", str(tmp_path), "--device")
    listed = [device for device in detect.devices(tmp_path) if device.kind == "gpu"]
    if len(listed) < 2:
        pytest.skip("this worker has one of the GPUs; run this test by itself")
    judges = [
        subprocess.Popen((*command, str(number)), cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for number in range(len(listed))
    ]
    for device, process in zip(listed, judges, strict=True):
        report = json.loads(process.communicate()[0].splitlines()[-1])
        assert f"sees {device.uuid} and none" in report["message"]
        assert report["fingerprint"]["device"]["uuid"] == device.uuid


QUICK_JUDGE = """
import sys
from pathlib import Path

import pytest

from evaluation.__main__ import main
from evaluation.code.languages import languages
from tests.gpu.conftest import hurry

hurry(pytest.MonkeyPatch())
for language in languages().values():
    type(language).check = lambda self, files, task: None
sys.exit(main(sys.argv[1:]))
"""
"""The judge without static analysis and with few windows."""

PROBE = """\
import ctypes
import sys


def reached(library):
    \"\"\"Return the UUIDs of all GPUs on which memory can be allocated, without hyphens.\"\"\"
    cuda, found = ctypes.CDLL(library), []
    count, device, uuid = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)()
    cuda.cuInit(0)
    cuda.cuDeviceGetCount(ctypes.byref(count))
    for number in range(count.value):
        context, memory = ctypes.c_void_p(), ctypes.c_void_p()
        cuda.cuDeviceGet(ctypes.byref(device), number)
        cuda.cuDeviceGetUuid_v2(uuid, device)
        if cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device):
            continue
        if not cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)):
            found.append(bytes(uuid).hex())
    return found


if __name__ == "__main__":
    print(*reached("libcuda.so.1"), flush=True)
    if len(sys.argv) > 1:  # a second driver, which reads the environment anew
        import os
        import shutil

        os.environ["CUDA_VISIBLE_DEVICES"] = sys.argv[1]
        loaded = next(line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line)
        print(*reached(shutil.copy(loaded, os.environ["TMPDIR"] + "/another.so")))
"""
"""A program that prints the GPUs that it can use; with an argument, also by a second driver."""

REACHES_OTHERS = (
    LISTS_GPUS.partition("    if x.is_cuda:")[0]
    + """\
    if x.is_cuda:
        try_others(str(torch.cuda.get_device_properties(0).uuid).replace("-", ""))


def try_others(own):
    import glob, os, re, stat, subprocess, sys

    opened = []
    for path in [f"/dev/nvidia{number}" for number in range(16)]:
        try:
            os.close(os.open(path, os.O_RDWR))
            opened.append(path)
        except OSError:
            pass
    for number in range(16):
        path = os.environ["TMPDIR"] + f"/node{number}"
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(195, number))
            os.close(os.open(path, os.O_RDWR))
            opened.append(path)
        except OSError:
            pass
    uuids = [
        found[0]
        for path in glob.glob("/proc/driver/nvidia/gpus/*/information")
        if (found := re.search(r"GPU-[0-9a-f-]{36}", open(path).read()))
    ]
    variables = dict(os.environ)
    del variables["CUDA_VISIBLE_DEVICES"]
    visible = ("0", "1", "0,1", *uuids)
    tries = [({}, []), *(({"CUDA_VISIBLE_DEVICES": value}, []) for value in visible)]
    tries += [({"CUDA_VISIBLE_DEVICES": os.environ["CUDA_VISIBLE_DEVICES"]}, ["0,1"])]
    children = [
        subprocess.Popen(
            ["timeout", "--signal=KILL", "60", sys.executable, "-I", "-c", PROBE, *arguments],
            env={**variables, **changed},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for changed, arguments in tries
    ]
    printed = [child.communicate()[0] for child in children]
    answers = [re.findall(r"\\b[0-9a-f]{32}\\b", text) for text in printed]
    others = {uuid for answer in answers for uuid in answer} - {own}
    used = sum(own in answer for answer in answers)
    raise RuntimeError(
        f"opened {len(opened)}, used its own {used > 0}, others {sorted(others)}; "
        f"{[(child.returncode, text[-150:]) for child, text in zip(children, printed)]}"
    )
"""
)


def judged(number: str, source: str, cache: Path, *, judge: Sequence[str]) -> dict[str, str]:
    """Return the report on a kernel for softmax, on the GPU of this name."""
    (cache / "softmax.py").write_text(source)
    words = ("judge", "softmax", "triton-to-triton", str(cache / "softmax.py"), "--json")
    completed = subprocess.run(
        (sys.executable, *judge, *words, "--cache", str(cache)),
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": number},
        stdout=subprocess.PIPE,
        text=True,
    )
    report: dict[str, str] = json.loads(completed.stdout.splitlines()[-1])
    return report


@pytest.fixture
def uuids() -> list[str]:
    """The UUIDs of two GPUs, which a process without a sandbox can both use."""
    if len(nvcc.capabilities()) < 2:
        pytest.skip("one GPU is here")
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        pytest.skip("this worker has one of the GPUs; run this test by itself")
    probe = (sys.executable, "-I", "-c", PROBE)
    found = subprocess.run(probe, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    assert len(found) >= 2, "the probe reaches every GPU"
    groups = (8, 12, 16, 20)
    return [
        "GPU-" + "-".join(uuid[a:b] for a, b in zip((0, *groups), (*groups, 32), strict=True))
        for uuid in found[:2]
    ]


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(500)
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("named", ["by number", "by UUID"])
def test_candidate_cannot_open_another_gpu(
    named: str, number: int, uuids: list[str], tmp_path: Path
) -> None:
    name = str(number) if named == "by number" else uuids[number]
    source = f"PROBE = {PROBE!r}\n{REACHES_OTHERS}"
    report = judged(name, source, tmp_path, judge=("-c", QUICK_JUDGE))
    assert report["verdict"] == "failed", report
    # Its own device file opens, and no child process reaches another GPU. Whether a child can start
    # the driver at all is not asked: on an H100 none could.
    assert "opened 1, " in report["message"], report["message"]
    assert "others []" in report["message"], report["message"]


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(500)
@pytest.mark.parametrize("number", [0, 1])
def test_honest_kernel_passes_on_each_gpu(number: int, uuids: list[str], tmp_path: Path) -> None:
    source = (TASKS / "Math" / "softmax" / "honest" / "whole_row.triton.py").read_text()
    report = judged(str(number), source, tmp_path, judge=("-c", QUICK_JUDGE))
    assert report["verdict"] == "passed", report["message"]


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ranks_open_a_gpu_each(uuids: list[str], tmp_path: Path, fork_server: ForkServer) -> None:
    if not isolates_ranks():
        pytest.skip("this machine cannot give ranks a network of their own")
    limits = ProcessLimits(
        folder=tmp_path, scratch=tmp_path, memory_bytes=8 << 30, seconds=120, threads=1,
        compiles=True, kind="gpu", ranks=2,
    )  # fmt: skip
    assert limits.variables()["CUDA_VISIBLE_DEVICES"] == ",".join(uuids)
    with ProcessHandle(fork_server, limits, WindowClock()) as process:
        process.connect()  # each opens memory of its own GPU, and they add up over NCCL
