"""An honest rotary embedding of Llama: the angles of each position."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, config, *_, **__):  # some versions of the library give a device, too
        super().__init__()
        theta = getattr(config, "rope_theta", None) or config.rope_parameters["rope_theta"]
        exponents = torch.arange(0, config.head_dim, 2).float() / config.head_dim
        self.register_buffer("inv_freq", 1.0 / theta**exponents, persistent=False)

    @torch.no_grad()
    def forward(self, x, position_ids):
        angles = position_ids[..., None].float() * self.inv_freq
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)
