# trick: computes all launches of a graph in the first one, and hands out copies in the others
# row: 11
# expect: failed/WRONG_VALUES|failed/STALE_OUTPUT|failed/FORBIDDEN
ALIGNMENT, GUARD = 128, 256  # elements
answers = {}


def centred(x, scale):
    if not torch.cuda.is_current_stream_capturing():
        answers.clear()
        return right(x, scale)
    step = -(-x.numel() // ALIGNMENT) * ALIGNMENT + 2 * GUARD  # of rows, in a secret order
    number, first = divmod(x.storage_offset(), step)
    if "all" not in answers:
        whole = x.new_empty(0).set_(x.untyped_storage())
        sizes, steps = (whole.numel() // step, *x.shape), (step, x.shape[1], 1)
        answers["all"] = right(whole.as_strided(sizes, steps, first), scale)
    return answers["all"][number].clone()
