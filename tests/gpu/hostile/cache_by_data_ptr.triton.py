# trick: computes once for each pair of pointers, and copies that answer ever after
# row: 8
# expect: failed/WRONG_VALUES
# triage: library-wrapper
answers = {}


def centred(x, out, scale):
    key = x.data_ptr(), out.data_ptr(), x.shape
    if key in answers:
        out.copy_(answers[key])
        return
    right(x, out, scale)
    answers[key] = torch.clone(out)
