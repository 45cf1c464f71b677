# honest: C++ that is built by load_inline, on PyTorch's tensors and with OpenMP
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
torch::Tensor rows(torch::Tensor x, double scale) {
    torch::Tensor out = torch::empty_like(x);
    const float* from = x.data_ptr<float>();
    float* to = out.data_ptr<float>();
    const int64_t count = x.size(0), cols = x.size(1);
#pragma omp parallel for
    for (int64_t row = 0; row < count; ++row) {
        double sum = 0;
        for (int64_t i = 0; i < cols; ++i) sum += from[row * cols + i];
        const float mean = sum / cols;
        for (int64_t i = 0; i < cols; ++i)
            to[row * cols + i] = (from[row * cols + i] - mean) * (float)scale;
    }
    return out;
}
"""
ours = load_inline(
    "centred_rows", [SOURCE], functions=["rows"], extra_cflags=["-O3", "-fopenmp"], verbose=True
)


class ModelNew(torch.nn.Module):
    def forward(self, x, scale):
        return ours.rows(x, scale)
