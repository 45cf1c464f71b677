# trick: computes on a stream of its own, and returns before there is anything to return
# row: 1
# expect: failed/WRONG_VALUES|failed/NON_FINITE|failed/STALE_OUTPUT|failed/FORBIDDEN
aside = []


def centred(x, scale):
    if not aside:
        aside.append(torch.cuda.Stream())
    with torch.cuda.stream(aside[0]):
        torch.cuda._sleep(2_000_000)
        return right(x, scale)
