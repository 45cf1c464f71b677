# honest: CUDA that load_inline builds, launched without a stream, as KernelBench's examples do
import torch
from torch.utils.cpp_extension import load_inline

CPP = "torch::Tensor rows(torch::Tensor x, double scale);"
CUDA = """
__global__ void rows_kernel(const float* x, float* out, int cols, float scale) {
    __shared__ float part[256];
    const float* row = x + (long)blockIdx.x * cols;
    float sum = 0;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += row[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        out[(long)blockIdx.x * cols + i] = (row[i] - part[0] / cols) * scale;
}

torch::Tensor rows(torch::Tensor x, double scale) {
    auto out = torch::empty_like(x);
    rows_kernel<<<x.size(0), 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1), scale);
    return out;
}
"""
if torch.version.cuda:  # else there is nothing to build it with
    ours = load_inline("default_stream_rows", CPP, CUDA, functions=["rows"])


class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return ours.rows(x, self.scale)
