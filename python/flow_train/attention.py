"""Attention of tokens that lie side by side, as a function of transformers' attention interface: each token reads its own sequence alone.

On a GPU in half precision it is one kernel of FlashAttention over all sequences (`torch.nn.attention.varlen`); elsewhere `scaled_dot_product_attention` over
sequences of about one length. Nothing here masks by a matrix of all tokens by all tokens.
"""
import torch
import torch.nn.functional as F
from transformers import AttentionInterface

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # before torch 2.10; scales and windows came with 2.11
    varlen_attn = None

NAME = "flow_train"
# What a layer may say to its attention and is heeded, or changes nothing. Anything else that is set makes a model one that is computed padded.
HEEDED = {"dropout", "scaling", "sliding_window", "is_causal", "position_ids", "use_cache", "output_attentions", "output_hidden_states", "return_dict", "cache_position"}


class Attention:
    """The segments of the batch that is being computed. A layer on the way back may be computed again, so a batch keeps its own."""

    segments = None
    # The window that each layer asked for, in their order, since the last `clear`.
    windows: list = []


def attend(module, query, key, value, attention_mask, **options):
    segments = Attention.segments
    unknown = [name for name, value in options.items() if name not in HEEDED and value is not None]
    if attention_mask is not None or unknown or segments is None or options.get("dropout"):
        raise NotImplementedError(f"attention with {unknown or 'a mask or dropout of its own'}")
    # [1, heads, tokens, width] -> [tokens, heads, width]
    query, key, value = (x[0].transpose(0, 1) for x in (query, key, value))
    scale, window = options.get("scaling"), options.get("sliding_window")
    Attention.windows.append(window)
    return (by_flash if flashes(query, value) else by_groups)(segments, query, key, value, scale, window)[None], None


def flashes(query, value):
    """Whether FlashAttention's kernel takes such heads, on such a GPU."""
    if varlen_attn is None or not query.is_cuda or query.dtype not in (torch.bfloat16, torch.float16):
        return False
    width = query.shape[-1]
    return width == value.shape[-1] and width % 8 == 0 and width <= 256 and torch.cuda.get_device_capability(query.device) >= (8, 0)


def by_flash(segments, query, key, value, scale, window):
    if segments.gather is not None:
        key, value = key.index_select(0, segments.gather), value.index_select(0, segments.gather)
    bounds = (segments.queries, segments.keys, segments.most_queries, segments.most_keys)
    # A query's last key is its own, and with a window of n the first is n - 1 before it.
    reach = (-1 if window is None else window - 1, 0)
    return varlen_attn(query.contiguous(), key.contiguous(), value.contiguous(), *bounds, scale=scale, window_size=reach)


def by_groups(segments, query, key, value, scale, window):
    copies = query.shape[1] // key.shape[1]
    out = []
    for queries, keys, mask, real, _ in segments.groups(window):
        own, read, worth = (take(x, at) for x, at in ((query, queries), (key, keys), (value, keys)))
        if copies > 1:
            read, worth = read.repeat_interleave(copies, 1), worth.repeat_interleave(copies, 1)
        found = F.scaled_dot_product_attention(own, read, worth, attn_mask=mask, is_causal=mask is None, scale=scale)
        out.append(found.transpose(1, 2).reshape(-1, query.shape[1], value.shape[2])[real])
    return torch.cat(out)[segments.order(window)]


def take(x, at):
    """`[tokens, heads, width]` at `[segments, length]`, as `[segments, heads, length, width]`."""
    return x.index_select(0, at.reshape(-1)).view(*at.shape, *x.shape[1:]).transpose(1, 2)


AttentionInterface.register(NAME, attend)
