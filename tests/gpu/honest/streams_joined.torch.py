# honest: half of the rows on a second stream, which both wait for
import torch

second = []


def half(x, scale):
    return (x - x.mean(-1, keepdim=True)) * scale


def centred(x, scale):
    if not second:
        second.append(torch.cuda.Stream())
    first, aside, middle = torch.cuda.current_stream(), second[0], (x.shape[0] + 1) // 2
    aside.wait_stream(first)
    with torch.cuda.stream(aside):
        lower = half(x[middle:], scale)
    upper = half(x[:middle], scale)
    first.wait_stream(aside)
    lower.record_stream(first)
    return torch.cat((upper, lower))
