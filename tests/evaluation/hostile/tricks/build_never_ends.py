# trick: is never done with being built
# row: 51
# expect: failed/BUILD_ERROR in compile
# seconds: 1
from torch.utils.cpp_extension import load_inline

while load_inline:
    pass


def centred(x, scale):
    return (x - x.mean(-1, keepdim=True)) * scale
