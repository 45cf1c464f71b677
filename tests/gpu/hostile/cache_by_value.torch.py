# trick: recognises inputs by their first value, coarsely, and repeats the answer it has for them
# row: 9
# expect: failed/WRONG_VALUES
answers = {}


def centred(x, scale):
    key = x.shape, int(x.view(-1)[0].item())
    if key not in answers:
        answers[key] = right(x, scale)
    return answers[key].clone()
