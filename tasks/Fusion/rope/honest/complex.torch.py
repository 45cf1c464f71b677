# honest: the rotation as a product of complex numbers
import torch


def rope(q, k, cos, sin):
    turn = torch.complex(cos.float(), sin.float())[:, None, :]
    return _rotate(q, turn), _rotate(k, turn)


def _rotate(x, turn):
    turned = torch.complex(*x.float().chunk(2, dim=-1)) * turn
    return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)
