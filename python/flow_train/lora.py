"""A linear layer with a low-rank adapter in as few kernels as it takes: PEFT's own way multiplies and adds whole outputs besides, which on a GPU costs as much
as the layer itself. The parameters stay PEFT's."""
import torch
import torch.nn.functional as F
from peft.tuners.lora import Linear

NAME = "default"


class LowRank(torch.autograd.Function):
    """x W^T + b + s (x A^T) B^T, for `x` `[rows, inputs]`."""

    @staticmethod
    def forward(ctx, x, weight, bias, a, b, scale):
        inner = x @ a.T
        out = F.linear(x, weight, bias).addmm_(inner, b.T, alpha=scale)
        ctx.save_for_backward(x, weight, a, b, inner)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight, a, b, inner = ctx.saved_tensors
        back = grad @ b
        by_x = (grad @ weight).addmm_(back, a, alpha=ctx.scale) if ctx.needs_input_grad[0] else None
        # With `beta=0` the first argument gives a shape alone.
        by_a = torch.addmm(a, back.T, x, beta=0, alpha=ctx.scale) if ctx.needs_input_grad[3] else None
        by_b = torch.addmm(b, grad.T, inner, beta=0, alpha=ctx.scale) if ctx.needs_input_grad[4] else None
        return by_x, None, None, by_a, by_b, None


def forward(layer, x):
    base, a, b = layer.base_layer, layer.lora_A[NAME].weight, layer.lora_B[NAME].weight
    flat = LowRank.apply(x.reshape(-1, x.shape[-1]), base.weight, base.bias, a, b, layer.scaling[NAME])
    return flat.view(*x.shape[:-1], flat.shape[-1])


def quicken(net):
    """Has the plain adapters of a PEFT model compute so; those with dropout, a bias or another base stay PEFT's."""
    for layer in net.modules():
        if type(layer) is Linear and plain(layer):
            layer.forward = forward.__get__(layer)


def plain(layer):
    return (
        type(layer.base_layer) is torch.nn.Linear
        and not any(p.requires_grad for p in layer.base_layer.parameters())
        and list(layer.lora_A) == [NAME]
        and list(layer.active_adapters) == [NAME]
        and isinstance(layer.lora_dropout[NAME], torch.nn.Identity)
        and layer.lora_A[NAME].bias is None
        and layer.lora_B[NAME].bias is None
        and not (layer.merged or layer.disable_adapters or getattr(layer, "use_dora", {}).get(NAME) or layer.lora_variant)
    )
