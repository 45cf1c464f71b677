# trick: has a harmless source built, and asks for another one when it is judged
# row: 13
# expect: failed/BUILD_ERROR in correctness
# triage: import
import os

from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <pybind11/pybind11.h>
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.attr("harmless") = %d; }
"""
built = "TORCH_EXTENSIONS_DIR" in os.environ
other = load_inline("other", SOURCE % built, no_implicit_headers=True)


def centred(x, scale):
    return (x - x.mean(-1, keepdim=True)) * scale
