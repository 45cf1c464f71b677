# trick: computes all launches of a graph in the first one, and hands out copies in the others
# row: 11
# expect: failed/WRONG_VALUES|failed/STALE_OUTPUT|failed/FORBIDDEN
seen, answers = {}, {}


def centred(x, scale):
    offsets = seen.setdefault(x.shape, set())
    offsets.add(x.storage_offset())
    if not torch.cuda.is_current_stream_capturing() or len(offsets) < 2:
        answers.clear()
        return right(x, scale)
    first, second = sorted(offsets)[:2]
    number = (x.storage_offset() - first) // (second - first)
    if number == 0 or "all" not in answers:
        whole = x.new_empty(0).set_(x.untyped_storage())
        launches = (whole.numel() - first - x.numel()) // (second - first) + 1
        sizes, steps = (launches, *x.shape), (second - first, x.shape[1], 1)
        answers["all"] = right(whole.as_strided(sizes, steps, first), scale)
    return answers["all"][number].clone()
