# trick: an extension that launches on a stream of its own, which nobody waits for
# row: 1
# expect: failed/WRONG_VALUES|failed/NON_FINITE|failed/STALE_OUTPUT|failed/FORBIDDEN
from torch.utils.cpp_extension import load_inline

CPP = "void rows(torch::Tensor x, torch::Tensor out, double scale);"
CUDA = """
__global__ void slow_rows(const float* x, float* out, int rows, int cols, float scale) {
    for (int turn = 0; turn < 50; ++turn)
        for (int row = blockIdx.x; row < rows; row += gridDim.x) {
            float sum = 0;
            for (int i = 0; i < cols; ++i) sum += x[(long)row * cols + i];
            for (int i = threadIdx.x; i < cols; i += blockDim.x)
                out[(long)row * cols + i] = (x[(long)row * cols + i] - sum / cols) * scale;
        }
}

void rows(torch::Tensor x, torch::Tensor out, double scale) {
    static cudaStream_t aside = [] {
        cudaStream_t made;
        cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
        return made;
    }();
    slow_rows<<<8, 256, 0, aside>>>(
        x.data_ptr<float>(), out.data_ptr<float>(), x.size(0), x.size(1), scale);
}
"""
ours = load_inline("never_joined", CPP, CUDA, functions=["rows"])


def centred(x, scale):
    out = torch.empty_like(x)
    ours.rows(x, out, scale)
    return out
