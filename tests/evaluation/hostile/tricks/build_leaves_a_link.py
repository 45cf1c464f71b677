# trick: leaves a link to a library that is not its own where what it built is looked for
# row: 48
# expect: failed/BUILD_ERROR
# triage: import
import glob
import os

from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <pybind11/pybind11.h>
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.attr("scale") = 1; }
"""
linked = load_inline("linked", SOURCE, no_implicit_headers=True)
for library in glob.glob("linked.*.so"):
    os.rename(library, "aside")
    os.symlink(os.path.abspath("aside"), library)


def centred(x, scale):
    return (x - x.mean(-1, keepdim=True)) * (scale * linked.scale)
