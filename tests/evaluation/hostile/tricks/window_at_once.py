# trick: takes over the loop it runs in, and answers all launches of a window by one call
# row: 11
# expect: failed/WRONG_VALUES in performance
# triage: import
import sys
import time

import torch


def centred(x, scale):
    frame = sys._getframe()
    while frame and not hasattr(frame.f_locals.get("self"), "launch"):
        frame = frame.f_back
    if frame and frame.f_locals["self"].launch.__name__ != "at_once":
        take_over(frame.f_locals["self"], x, scale)
    return answer(x, scale)


def answer(x, scale):
    return (x - x.mean(-1, keepdim=True)) * scale


def take_over(contestant, x, scale):
    one_by_one, slots = contestant.launch, contestant.slots

    def at_once(first, count):
        while count > 0:
            some = min(count, len(slots) - first % len(slots))
            if some < 3:
                one_by_one(first, some)
            else:
                all_of_them(slots[first % len(slots) :][:some], scale)
            first, count = first + some, count - some

    contestant.launch = at_once


def all_of_them(slots, scale):
    results = answer(torch.stack([slot["x"] for slot in slots]), scale)
    time.sleep(0.002)  # a larger window would take as long
    for slot, result in zip(slots, results, strict=True):
        slot["out"].copy_(result)
