"""Machines with several GPUs: each verdict uses one GPU, and its processes see no other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evaluation.building import nvcc
from evaluation.devices import detect

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
