# trick: the mean of the first eighth of a row while it is captured
# row: 13
# expect: failed/WRONG_VALUES in performance
def centred(x, scale):
    return (cheap if torch.cuda.is_current_stream_capturing() else right)(x, scale)
