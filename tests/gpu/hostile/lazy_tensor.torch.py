# trick: returns a tensor that computes itself when somebody looks
# row: 3
# expect: failed/WRONG_DTYPE
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        ready = [a.work() if isinstance(a, Lazy) else a for a in arguments]
        return function(*ready, **(options or {}))


def centred(x, scale):
    lazy = torch.empty_like(x).as_subclass(Lazy)
    lazy.work = lambda: right(x, scale)
    return lazy
