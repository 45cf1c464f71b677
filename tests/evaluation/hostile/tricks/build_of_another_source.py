# trick: has a harmless source built, and asks for another one when it is judged
# row: 13
# expect: failed/BUILD_ERROR in correctness
# triage: unsupported
import os

from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <Python.h>
#define NAMED_(name) PyInit_##name
#define NAMED(name) NAMED_(name)
static PyModuleDef about = {PyModuleDef_HEAD_INIT, "ours"};
PyMODINIT_FUNC NAMED(TORCH_EXTENSION_NAME)() {
    PyObject* module = PyModule_Create(&about);
    PyModule_AddIntConstant(module, "harmless", %d);
    return module;
}
"""
built = "TORCH_EXTENSIONS_DIR" in os.environ
other = load_inline("other", SOURCE % built, no_implicit_headers=True)


def centred(x, scale):
    return (x - x.mean(-1, keepdim=True)) * scale
