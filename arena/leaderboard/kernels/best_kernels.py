"""The best kernel of a task on each device, under the roofline of the device."""

from __future__ import annotations

from dataclasses import dataclass

from arena.catalog.models import Agent, Hardware
from arena.leaderboard.ranking.boards import Leader, leaders
from arena.leaderboard.ranking.results import snapshot
from arena.runs.display.roofline import Roofline, roofline_of
from arena.runs.models import Evaluation, Measurement
from arena.runs.states import Scope


@dataclass(frozen=True)
class BestKernel:
    device: Hardware
    agent: Agent
    best: Leader
    roofline: Roofline


def best_kernels(task: int) -> list[BestKernel]:
    """Return the best kernel of a task on each device where its public cases have a roofline."""
    now = snapshot()
    found = [(d, leaders(d.slug, now).get(task)) for d in now.catalog.devices.values()]
    runs = [best.run for _, best in found if best]
    verdicts = Evaluation.objects.filter(submission__run__in=runs, scope=Scope.FINAL)
    run_of = dict(verdicts.order_by().values_list("pk", "submission__run"))
    cases: dict[str, list[Measurement]] = {}
    for each in Measurement.objects.public().filter(evaluation__in=run_of):
        cases.setdefault(run_of[each.evaluation_id], []).append(each)
    return [
        BestKernel(device, now.agents[best.agent], best, roofline)
        for device, best in found
        if best and (roofline := roofline_of(device.peaks, cases.get(best.run, ())))
    ]
