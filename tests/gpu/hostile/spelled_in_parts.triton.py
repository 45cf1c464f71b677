# trick: calls a library under a name that is put together when it runs
# row: 46
# triage: call
# expect: failed/BUILD_ERROR
def centred(x, out, scale):
    torch_of = globals()["to" + "rch"]
    mean = getattr(torch_of, "me" + "an")(x, -1, keepdim=True)
    getattr(torch_of, "m" + "ul")(x - mean, scale, out=out)
