# honest: CUDA that load_inline builds, launched on PyTorch's current stream
import torch
from torch.utils.cpp_extension import load_inline

CPP = "torch::Tensor rows(torch::Tensor x, double scale);"
CUDA = """
#include <ATen/cuda/CUDAContext.h>

__global__ void rows_kernel(const float* x, float* out, int cols, float scale) {
    __shared__ float part[32];
    const float* row = x + (long)blockIdx.x * cols;
    float sum = 0;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += row[i];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int warp = 0; warp < blockDim.x / 32; ++warp) sum += part[warp];
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        out[(long)blockIdx.x * cols + i] = (row[i] - sum / cols) * scale;
}

torch::Tensor rows(torch::Tensor x, double scale) {
    auto out = torch::empty_like(x);
    rows_kernel<<<x.size(0), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), out.data_ptr<float>(), x.size(1), scale);
    return out;
}
"""
if torch.version.cuda:  # else there is nothing to build it with
    ours = load_inline("centred_rows", CPP, CUDA, functions=["rows"], extra_cuda_cflags=["-O3"])


class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return ours.rows(x, self.scale)
