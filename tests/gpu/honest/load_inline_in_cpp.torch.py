# honest: C++ that load_inline builds, which calls PyTorch's own kernels
from torch.utils.cpp_extension import load_inline

CPP = """
torch::Tensor rows(torch::Tensor x, double scale) {
    return torch::sub(x, x.mean(-1, true)).mul_(scale);
}
"""
ours = load_inline("centred_rows_in_cpp", CPP, functions=["rows"], with_cuda=False)


def centred(x, scale):
    return ours.rows(x, scale)
