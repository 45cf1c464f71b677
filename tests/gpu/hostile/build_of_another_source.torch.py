# trick: has a harmless source built, and asks for another one where there is a GPU
# row: 13
# expect: failed/BUILD_ERROR in correctness
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <pybind11/pybind11.h>
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.attr("harmless") = %d; }
"""
built = torch.cuda.device_count() == 0
other = load_inline("other", SOURCE % built, no_implicit_headers=True, with_cuda=False)


def centred(x, scale):
    return right(x, scale)
