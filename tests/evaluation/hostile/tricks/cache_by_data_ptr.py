# trick: recognises inputs by their address
# row: 8
# expect: failed/WRONG_VALUES
answers = {}


def centred(x, scale):
    key = (x.data_ptr(), x.shape)
    if key not in answers:
        answers[key] = (x - x.mean(-1, keepdim=True)) * scale
    return answers[key].clone()
