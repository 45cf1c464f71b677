# honest: C++ that is built by load_inline, on bare pointers and with OpenMP
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <Python.h>
#define NAMED_(name) PyInit_##name
#define NAMED(name) NAMED_(name)

static PyObject* centre(PyObject*, PyObject* given) {
    unsigned long long from_at, to_at;
    long long count, cols;
    double scale;
    if (!PyArg_ParseTuple(given, "KKLLd", &from_at, &to_at, &count, &cols, &scale)) return nullptr;
    const float* from = (const float*)from_at;
    float* to = (float*)to_at;
#pragma omp parallel for
    for (long long row = 0; row < count; ++row) {
        double sum = 0;
        for (long long i = 0; i < cols; ++i) sum += from[row * cols + i];
        const float mean = sum / cols;
        for (long long i = 0; i < cols; ++i)
            to[row * cols + i] = (from[row * cols + i] - mean) * (float)scale;
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"centre", centre, METH_VARARGS, nullptr}, {}};
static PyModuleDef about = {PyModuleDef_HEAD_INIT, "ours", nullptr, -1, functions};
PyMODINIT_FUNC NAMED(TORCH_EXTENSION_NAME)() { return PyModule_Create(&about); }
"""
ours = load_inline(
    "centred_rows",
    [SOURCE],
    extra_cflags=["-O3", "-fopenmp"],
    no_implicit_headers=True,
    verbose=True,
)


class ModelNew(torch.nn.Module):
    def forward(self, x, scale):
        out = torch.empty_like(x)
        ours.centre(x.data_ptr(), out.data_ptr(), *x.shape, scale)
        return out
