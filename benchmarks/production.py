"""Verdicts on production tasks of some architectures: each module alone and deployed.

    python benchmarks/production.py [PATTERN ...] [--within SECONDS] [--cache FOLDER]
                                    [--output FILE] [--repeats N] [--merge FILE ...]

Judges submissions for up to three modules of architectures of all families: a Triton kernel where
there is one, and a copy of the library's class, compiled and as it is. The first of each module are
also judged in one model, without those inside another. PATTERNS choose among `task/submission` and
`architecture/composition`, and those of the first come first. A final verdict measures each alone
and deployed, in eager, compiled and as a CUDA graph. One submission of each module comes first,
then N rounds of some again, then the others.

On a GPU the library's models are compiled in parallel before. No verdict is started later than
SECONDS after the start; those in FILE are skipped, unless another version of the judge's source
gave them. Each GPU needs a process of its own, which sees no other (`CUDA_VISIBLE_DEVICES`) and has
cores of its own (`taskset`). `--merge` judges nothing: it puts the files of several processes into
one.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import production_warm as warm
from benchmarks.shared import (
    ROOT,
    now,
    provenance,
    resumable_parser,
    source_of_judge,
    variation,
    write_json,
)
from evaluation.bench.devices import detect
from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU, GPU
from evaluation.kinds.module import judge as production_judge
from evaluation.kinds.module.architectures import FOLDER, Architecture, ModuleTask, architectures
from evaluation.kinds.module.architectures import merged as with_settings
from evaluation.kinds.module.composition import COMPOSITION, MIN_PARTS, Part, nested
from evaluation.kinds.module.description import library_source
from evaluation.sandbox.launch import tail
from evaluation.sandboxed.model import phases
from evaluation.types import Report

COMMAND = "python benchmarks/production.py"
RESULTS = ROOT / f"benchmarks/results/production-{GPU}.json"
KERNELS = ROOT / "benchmarks/production_kernels"
SUBMISSIONS = ("triton", "compile", "library")


@dataclasses.dataclass(frozen=True)
class Chosen:
    """An architecture's depth on a GPU, where each layer takes time to compile, and its modules."""

    depth: Mapping[str, Any]
    kernels: Mapping[str, str]
    """The Triton kernel of each task; empty for none."""


LAYERS = {"num_hidden_layers": 2}
CHOSEN = {
    "dit": Chosen(
        {"num_layers": 4},
        {"dit_layer_norm": "layer_norm", "dit_gelu": "gelu", "dit_ada_layer_norm_zero": ""},
    ),
    "llama": Chosen(
        LAYERS, {"llama_rms_norm": "rms_norm", "llama_mlp": "swiglu", "llama_rotary_embedding": ""}
    ),
    "clip_text": Chosen(
        {"num_hidden_layers": 4},
        {"clip_text_layer_norm": "layer_norm", "clip_text_mlp": "clip_mlp",
         "clip_text_embeddings": ""},
    ),
    "convnextv2": Chosen(
        {"depths": [1, 1, 3, 1]},
        {"convnextv2_layer_norm": "convnext_layer_norm", "convnextv2_grn": "",
         "convnextv2_embeddings": ""},
    ),
    "esm2": Chosen(
        {"num_hidden_layers": 4},
        {"esm2_layer_norm": "layer_norm", "esm2_rotary_embedding": "", "esm2_embeddings": ""},
    ),
    "modernbert": Chosen(
        {"num_hidden_layers": 4},
        {"modernbert_mlp": "modernbert_mlp", "modernbert_layer_norm": "layer_norm",
         "modernbert_rotary_embedding": ""},
    ),
    "vjepa2": Chosen(
        {"num_hidden_layers": 3, "pred_num_hidden_layers": 1},
        {"vjepa2_layer_norm": "layer_norm", "vjepa2_mlp": "vjepa2_mlp", "vjepa2_embeddings": ""},
    ),
    "lfm2": Chosen(
        {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]},
        {"lfm2_rms_norm": "rms_norm", "lfm2_mlp": "lfm2_mlp", "lfm2_short_conv": ""},
    ),
    "latte": Chosen(
        {"num_layers": 2},
        {"latte_layer_norm": "layer_norm", "latte_gelu": "gelu",
         "latte_ada_layer_norm_single": ""},
    ),
    "decision_transformer": Chosen(
        {"n_layer": 4},
        {"decision_transformer_layer_norm": "layer_norm",
         "decision_transformer_gpt2_mlp": "decision_transformer_mlp",
         "decision_transformer_conv1d": ""},
    ),
    "gemma3": Chosen(
        LAYERS, {"gemma3_rms_norm": "gemma_rms_norm", "gemma3_mlp": "geglu",
                 "gemma3_rotary_embedding": ""},
    ),
    "sd3": Chosen(
        {"num_layers": 2}, {"sd3_gelu": "gelu", "sd3_ada_layer_norm_zero": "", "sd3_conv2d": ""}
    ),
    "whisper": Chosen(
        {"encoder_layers": 2, "decoder_layers": 2},
        {"whisper_layer_norm": "layer_norm", "whisper_conv1d": "",
         "whisper_positional_embedding": ""},
    ),
    "dinov3_vit": Chosen(
        {"num_hidden_layers": 4},
        {"dinov3_vit_layer_norm": "layer_norm", "dinov3_vit_embeddings": "",
         "dinov3_vit_conv2d": ""},
    ),
    "mobilevit": Chosen(
        {"n_attn_blocks": [1, 1, 1]},
        {"mobilevit_group_norm": "group_norm", "mobilevit_conv_layer": "",
         "mobilevit_linear_self_attention": ""},
    ),
    "diffusion_gemma": Chosen(
        {"text_config": {"num_hidden_layers": 2,
                         "layer_types": ["sliding_attention", "full_attention"]}},
        {"diffusion_gemma_rms_norm": "diffusion_gemma_rms_norm",
         "diffusion_gemma_mlp": "geglu", "diffusion_gemma_rotary_embedding": ""},
    ),
    "esmfold2_pairs": Chosen(
        {"num_layers": 2},
        {"esmfold2_pairs_layer_norm": "layer_norm", "esmfold2_pairs_swi_glu": "fused_swiglu",
         "esmfold2_pairs_triangle_update": ""},
    ),
    "lightning_attention": Chosen(
        {"num_hidden_layers": 2, "layer_types": ["linear_attention", "linear_attention"]},
        {"lightning_attention_rms_norm": "rms_norm",
         "lightning_attention_experts": "minimax_experts", "lightning_attention_mixer": ""},
    ),
    "pi0": Chosen(
        {"vlm_config": {"text_config": LAYERS, "vision_config": LAYERS}, "dit_config": LAYERS},
        {"pi0_rms_norm": "gemma_rms_norm", "pi0_gemma_mlp": "geglu",
         "pi0_siglip_mlp": "siglip_mlp"},
    ),
    "point_attention": Chosen({"num_layers": 2}, {"point_attention_gatv2_conv": "gatv2_conv"}),
    "rwkv": Chosen(
        LAYERS,
        {"rwkv_layer_norm": "layer_norm", "rwkv_self_attention": "rwkv_self_attention",
         "rwkv_feed_forward": ""},
    ),
    "token2wav_dit": Chosen(
        {"num_hidden_layers": 4, "look_ahead_layers": [2], "look_backward_layers": [0, 3]},
        {"token2wav_dit_layer_norm": "layer_norm", "token2wav_dit_mlp": "token2wav_mlp",
         "token2wav_dit_ada_layer_norm_zero": ""},
    ),
    "xlstm": Chosen(
        LAYERS,
        {"xlstm_rms_norm": "xlstm_rms_norm",
         "xlstm_multi_head_layer_norm": "xlstm_multi_head_layer_norm", "xlstm_feed_forward": ""},
    ),
}  # fmt: skip
REPEATED = ("dit_layer_norm/triton", "llama_rms_norm/triton", "clip_text_mlp/triton")
"""Submissions that are judged again, for the variation between verdicts."""
COMPILER_CORES = 2
"""Cores of a process that compiles a model: one for the judge, and one for the compiler."""
COMPILE_SECONDS = 200.0
MAX_LOG_BYTES = 8192
FUTURE = "from __future__ import annotations\n"
PREPARE = """

    def process_weights_after_loading(self):
        self.forward = torch.compile(self.forward, dynamic=False)
"""


@dataclasses.dataclass(frozen=True)
class Submission:
    """A file for a task, or those of a composition, with a name of its own."""

    slug: str
    architecture: Architecture
    parts: tuple[Part, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the chosen submissions; the exit code is 0 if all passed."""
    parser = resumable_parser(__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=0, metavar="N")
    parser.add_argument("--merge", nargs="+", type=Path, default=[], metavar="FILE")
    parser.add_argument("--compile-only", metavar="ARCHITECTURE", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    started, cache = time.monotonic(), options.cache.absolute()
    if options.compile_only:
        architecture = shallow(architectures()[options.compile_only], GPU)
        print(json.dumps(warm.compile_library(architecture, GPU, cache)))
        return 0
    if options.merge:
        parts = [json.loads(path.read_text()) for path in options.merge]
        write_json(options.output or RESULTS, merged(parts))
        return 0
    gpus = [device for device in detect.devices(cache, (GPU,)) if not device.unjudged]
    device = (gpus or detect.devices(cache, (CPU,)))[0]
    kind = device.kind
    output = options.output or ROOT / f"benchmarks/results/production-{kind}.json"
    data = json.loads(output.read_text()) if output.is_file() else {}
    found, compiled = data.get("verdicts", {}), data.get("compiled", {})
    repeats, source = data.get("repeats", {}), source_of_judge()
    chosen = matching(submissions(kind), options.patterns)

    def save() -> None:
        every = {"verdicts": found, "repeats": repeats, "compiled": compiled}
        write_json(output, {"command": COMMAND, **provenance(device), **every})

    if kind == GPU:
        compiled |= compile_libraries([each.architecture for each in chosen], cache)
        save()
    with ForkServer() as fork_server:
        judge_one = functools.partial(judged, kind=kind, cache=cache, fork_server=fork_server)
        for each, number in order(chosen, options.repeats):
            if time.monotonic() - started > options.within:
                break
            earlier = repeats.get(each.slug, []) if number else [found.get(each.slug, {})]
            known = [result for result in earlier if result.get("source") == source]
            if len(known) >= max(number, 1):
                continue
            where = {"source": source, "card": device.uuid}
            result = {**where, **judge_one(each, final=not number)}
            if number:
                repeats[each.slug] = [*known, result]
            else:
                found[each.slug] = result
            print(each.slug, number or "", summary(result), flush=True)
            save()
    for slug, verdicts in repeats.items():
        speedups = [each["deployed"]["speedup"] for each in verdicts if "deployed" in each]
        if len(speedups) > 1:
            print(f"{slug}: CV {variation(speedups):.2%} of {len(speedups)} rounds")
    wrong = [slug for slug, each in found.items() if each.get("verdict") != "passed"]
    print(f"{len(found) - len(wrong)} of {len(found)} passed; not: {', '.join(wrong)}")
    return 1 if wrong else 0


def merged(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the results of several processes as one; of two verdicts on a submission the later.

    Each verdict has the version and the source of the judge that gave it, and all else is that of
    the latest process. Cards of one kind and one version of PyTorch are required.
    """
    parts = sorted(parts, key=lambda part: str(part["at"]))
    assert len({(each["device"]["name"], each["torch"]) for each in parts}) == 1, "other machines"
    verdicts: dict[str, Any] = {}
    repeats: dict[str, list[Any]] = {}
    for part in parts:
        named = {"source": part["judge"]["source"], "judge": part["judge"].get("version")}
        for slug, verdict in part["verdicts"].items():
            if slug not in verdicts or verdicts[slug]["at"] < verdict["at"]:
                verdicts[slug] = {**named, **verdict}
        for slug, rounds in part["repeats"].items():
            repeats.setdefault(slug, []).extend({**named, **each} for each in rounds)
    compiled = {name: each for part in parts for name, each in part["compiled"].items()}
    every = {name: value for part in parts for name, value in part.items()}
    return {**every, "verdicts": verdicts, "repeats": repeats, "compiled": compiled}


def matching(every: Sequence[Submission], patterns: Sequence[str]) -> list[Submission]:
    """Return the submissions that match a pattern, in the order of the patterns."""
    found = (e for p in patterns for e in every if fnmatchcase(e.slug, p))
    return list({each.slug: each for each in found}.values())


def order(chosen: Sequence[Submission], repeats: int) -> list[tuple[Submission, int]]:
    """Return what is judged: one submission of each module, the repeated ones, then the others.

    The number is that of the repetition, and 0 for a final verdict.
    """
    first = list({each.slug.partition("/")[0]: each for each in reversed(chosen)}.values())
    again = [
        (each, number + 1) for number in range(repeats) for each in chosen if each.slug in REPEATED
    ]
    final = [
        [(each, 0) for each in chosen if (each in first) is wanted] for wanted in (True, False)
    ]
    return [*final[0], *again, *final[1]]


def compile_libraries(
    chosen: Sequence[Architecture],
    cache: Path,
    program: str = __file__,
    each_cores: int = COMPILER_CORES,
    max_seconds: float = COMPILE_SECONDS,
) -> dict[str, Any]:
    """Compile the library's models in parallel, and return the seconds or the error of each.

    Each process has cores of its own, since the judge pins threads to the first ones. A model that
    takes longer than `max_seconds` is compiled by its first verdict.
    """
    by_name = {each.name: each for each in chosen}
    waiting = [name for name, each in by_name.items() if not warm.is_compiled(each, cache)]
    cores = sorted(os.sched_getaffinity(0))
    free = [cores[at : at + each_cores] for at in range(0, len(cores), each_cores)]
    running: dict[str, tuple[float, list[int], IO[str], subprocess.Popen[str]]] = {}
    found: dict[str, Any] = {}
    with ExitStack() as logs:
        while waiting or running:
            while waiting and free:
                name, own = waiting.pop(0), free.pop(0)
                log = logs.enter_context(tempfile.TemporaryFile("w+"))
                command = [sys.executable, program, "--compile-only", name, "--cache", str(cache)]
                process = subprocess.Popen(command, stdout=log, stderr=log, text=True)
                os.sched_setaffinity(process.pid, own)  # it has no other thread yet
                running[name] = time.monotonic(), own, log, process
            time.sleep(0.1)
            for name, (began, own, log, process) in list(running.items()):
                seconds = time.monotonic() - began
                if process.poll() is None and seconds < max_seconds:
                    continue
                late = process.poll() is None
                process.kill()
                text = tail(log.fileno(), MAX_LOG_BYTES)
                text = f"killed after {max_seconds:g} s; {text}" if late else text
                printed = [line for line in text.splitlines() if line.startswith('{"')]
                done = not process.wait() and printed
                result = json.loads(printed[-1]) if done else {"error": text}
                found[name] = {**result, "wall": round(seconds, 1)}
                print("compiled", name, json.dumps(found[name]), flush=True)
                running.pop(name)
                free.append(own)
    return found


def submissions(kind: str) -> list[Submission]:
    """Return all submissions, those of an architecture together, and the first of each module.

    The composition of an architecture is the last of it.
    """
    found: list[Submission] = []
    known = architectures()
    for name, chosen in CHOSEN.items():
        architecture = shallow(known[name], kind)
        first = []
        for task_name, kernel in chosen.kernels.items():
            task = architecture.task(task_name)
            texts = sources(task, kernel if kind == GPU else "")
            parts = {each: Part(task, {task.target_file: text}) for each, text in texts.items()}
            found += [
                Submission(f"{task_name}/{each}", architecture, (part,))
                for each, part in parts.items()
            ]
            first += list(parts.values())[:1]
        if len(parts := apart(architecture, first)) >= MIN_PARTS:
            found.append(Submission(f"{name}/{COMPOSITION}", architecture, parts))
    return found


def apart(architecture: Architecture, parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts without those whose modules contain, or are in, those of an earlier one."""
    probed = json.loads((FOLDER / "probe.json").read_text())["architectures"]
    modules = next(each["modules"] for each in probed if each["name"] == architecture.name)
    places = {each["module"]: each["paths"] for each in modules}
    found: list[Part] = []
    for part in parts:
        own = places[part.task.module]
        if not any(nested(own, places[each.task.module]) for each in found):
            found.append(part)
    return tuple(found)


def shallow(architecture: Architecture, kind: str) -> Architecture:
    """Return an architecture of the chosen depth on a GPU, with a hash of its own."""
    if kind != GPU:
        return architecture
    size, depth = architecture.sizes[kind], CHOSEN[architecture.name].depth
    digest = hashlib.sha256(f"{architecture.hash}{sorted(depth.items())}".encode()).hexdigest()
    size = dataclasses.replace(size, settings=with_settings(size.settings, depth))
    return dataclasses.replace(architecture, sizes={**architecture.sizes, kind: size}, hash=digest)


def sources(task: ModuleTask, kernel: str) -> dict[str, str]:
    """Return the texts of a task's submissions, the one that comes first at the beginning."""
    found = {"triton": (KERNELS / f"{kernel}.py").read_text()} if kernel else {}
    try:
        library = library_source.copied(task.module)
    except library_source.NotPortable:  # the class needs more of its library than a file can have
        return found
    return {**found, "compile": compiled(library), "library": library}


def compiled(source: str) -> str:
    """Return a copy of a library's class, the last of its file, whose forward is compiled.

    Each module compiles its own. `@torch.compile` above a forward with default values fails where
    the whole model is compiled (torch 2.11 and 2.13).
    """
    if "import torch" not in source.splitlines():  # some classes need parts of it alone
        source = source.replace(FUTURE, f"{FUTURE}\nimport torch\n", 1)
    return source.rstrip() + PREPARE


def judged(
    submission: Submission, kind: str, cache: Path, fork_server: ForkServer, final: bool
) -> dict[str, Any]:
    """Return the figures of a verdict, or the error of a judge that failed."""
    began = time.perf_counter()
    architecture = submission.architecture
    try:
        report = production_judge.judge(
            architecture,
            submission.parts,
            kind,
            cache,
            phases.extent(kind, final, architecture.name, architecture.ranks),
            fork_server=fork_server,
            final=final,
        )
        result = figures(report)
    except Exception as error:  # of one architecture; the others are judged
        trace = "".join(traceback.format_exception(error))
        result = {"error": {"error": f"{type(error).__name__}: {error}", "trace": trace}}
    return {"at": now(), **result, "wall": round(time.perf_counter() - began, 2)}


def figures(report: Report) -> dict[str, Any]:
    """Return all that a verdict has measured, and the error of a judge that failed."""
    last = report.gates[-1]
    correctness = next((g.detail for g in report.gates if g.gate == "correctness"), {})
    return {
        "verdict": report.verdict.value,
        "reason": report.reason and report.reason.value,
        "message": report.message,
        **({"error": dict(last.private)} if last.private else {}),
        "seconds": {name: round(value, 2) for name, value in report.seconds.items()},
        "errors": correctness.get("phases"),
        **{name: value for name, value in last.detail.items() if "deployed" in last.detail},
    }


def summary(result: Mapping[str, Any]) -> str:
    """Return the verdict, its seconds, what each regime took, and all of an error."""
    seconds = {name: value for name, value in result.get("seconds", {}).items() if value > 0.1}
    regimes = {
        f"{phase} {regime}": [
            *(round(timing[f"{side}_us"]) for side in ("baseline", "candidate")),
            round(timing["spread"], 4), timing["blocks"],
        ]
        for phase, timings in result.get("regimes", {}).items()
        for regime, timing in timings.items()
    }  # fmt: skip
    refused = {
        f"{phase} {regime}": each["refusal"]
        for phase, engaged in result.get("engaged", {}).items()
        for regime, each in engaged.items()
        if each["refusal"]
    }
    error = result.get("error", {})
    text = f"\n{error['trace']}" if error else ""
    return f"{result.get('message')} {result['wall']} s {seconds} {regimes} {refused}{text}"


if __name__ == "__main__":
    sys.exit(main())
