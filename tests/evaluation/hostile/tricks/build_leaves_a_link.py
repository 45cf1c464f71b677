# trick: leaves a link to a library that is not its own where what it built is looked for
# row: 48
# expect: failed/BUILD_ERROR
# triage: import
import glob
import os

from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <Python.h>
#define NAMED_(name) PyInit_##name
#define NAMED(name) NAMED_(name)
static PyModuleDef about = {PyModuleDef_HEAD_INIT, "ours"};
PyMODINIT_FUNC NAMED(TORCH_EXTENSION_NAME)() {
    PyObject* module = PyModule_Create(&about);
    PyModule_AddIntConstant(module, "scale", 1);
    return module;
}
"""
linked = load_inline("linked", SOURCE, no_implicit_headers=True)
for library in glob.glob("linked.*.so"):
    os.rename(library, "aside")
    os.symlink(os.path.abspath("aside"), library)


def centred(x, scale):
    return (x - x.mean(-1, keepdim=True)) * (scale * linked.scale)
