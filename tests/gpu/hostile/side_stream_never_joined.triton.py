# trick: launches on a stream that the timed one never waits for, nor a graph holds
# row: 1
# expect: failed/STALE_OUTPUT|failed/FORBIDDEN
aside = []


def centred(x, out, scale):
    if torch.cuda.is_available() and not aside:
        aside.append(torch.cuda.Stream())
    with torch.cuda.stream(aside[0] if aside else None):
        right(x, out, scale)
