"""UNTRUSTED: the fork server, the isolation of each fork, and the loop that serves the judge.

The fork server has imported PyTorch and holds no secret: its environment is its own, and it never
reads a task, a seed or a reference. Each process of a candidate, of a baseline or of a task's code
is a sandboxed fork of it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import signal
import socket
import traceback

import torch

from evaluation.sandbox import containment
from evaluation.sandbox.channel import TOKEN_BYTES, Channel, ChannelError, Message
from evaluation.sandbox.policy import Policy
from evaluation.sandbox.syscalls import die_with_parent
from evaluation.sandboxed import runner
from evaluation.sandboxed.kernels import loader
from evaluation.sandboxed.kernels.python_file import imports_for_forks
from evaluation.sandboxed.requests import RequestHandler

FAILED = bytes(TOKEN_BYTES)
"""The token that reports failed launches; `explain` gives the reason."""


def serve_forks(descriptor: int) -> None:
    """Fork a sandboxed process for each request until the judge is gone."""
    die_with_parent()
    gc.disable()
    torch.set_num_threads(1)  # a pool of threads would not survive the fork
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    judge = Channel(socket.socket(fileno=descriptor), accepts_descriptors=True)
    with contextlib.suppress(ChannelError):  # the judge may have ended during the imports
        judge.send({"ready": torch.__version__})
    while True:
        try:
            request, descriptors = judge.receive()
        except ChannelError:
            return
        if "prepare" in request:
            with contextlib.suppress(Exception):  # a process that needs it reports the failure
                loader(request["prepare"]).prepare()
        elif "import" in request:
            _import(request["import"])
        elif _fork() == 0:
            judge.close()
            _supervise(request, descriptors)
        for number in descriptors:
            os.close(number)


def _fork() -> int:
    """Fork with all objects so far exempt from collection, which would copy their memory.

    The fork server collects nothing: during imports that takes a sixth of the time.
    """
    gc.freeze()
    pid = os.fork()
    if pid == 0:
        gc.enable()
    return pid


def _import(names: list[str]) -> None:
    """Import modules that forks will need. What fails is reported by a fork that needs it."""
    with imports_for_forks():
        for name in names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def _supervise(request: Message, descriptors: list[int]) -> None:
    """Start the sandboxed process of a request, and report how it ended. Never returns."""
    *channels, log, status = descriptors
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with_parent()
        os.setsid()
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)

        def body(channel: int) -> None:
            os.closerange(3, channel)  # nothing else of the fork server's stays open
            os.closerange(channel + 1, 1 << 16)
            judge = Channel(socket.socket(fileno=channel), accepts_descriptors=True)
            serve(judge, request["threads"], request.get("task_code", False))

        bodies = (functools.partial(body, channel) for channel in channels)
        init = containment.contain(Policy.from_json(request["policy"]), *bodies)
        for channel in channels:
            os.close(channel)
        reporter = Channel(socket.socket(fileno=status))
        reporter.send({"init": init})
        reporter.send({"exit": containment.exit_code(os.waitpid(init, 0)[1])})
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(0)


def serve(judge: Channel, threads: int, task_code: bool = False) -> None:
    """Handle the judge's requests about a kernel, or about a task's code, until it is gone."""
    torch.set_num_threads(threads)
    torch.backends.cudnn.allow_tf32 = False  # float32 is IEEE float32
    handler = _task_runner(judge) if task_code else runner.KernelRunner()
    with contextlib.suppress(ChannelError):
        while True:
            request, descriptors = judge.receive()
            reply = handler.handle(request, descriptors)
            judge.send({"echo": request.get("nonce"), **reply})
            if isinstance(handler, runner.KernelRunner) and handler.prepared is not None:
                token = judge.receive_token()
                judge.send_token(token if handler.launch_prepared() else FAILED)


def _task_runner(judge: Channel) -> RequestHandler:
    from evaluation.sandboxed.task_runner import TaskRunner  # imported by the fork server before

    return TaskRunner(judge)
