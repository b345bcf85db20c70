"""Random numbers without a generator: a hash of (seed, frame, codebook, draw, id).

All arithmetic is on 32-bit words held in int64, and no product leaves int64, so every
device and every engine computes the same words:

    mix(x):  x ^= x >> 16;  x = x * 0x7feb352d mod 2^32
             x ^= x >> 15;  x = x * 0x846ca68b mod 2^32;  x ^= x >> 16     ("lowbias32")

    low, high   = the lower two 32-bit words of the seed
    root[lane]  = mix(mix(LANES[lane] ^ low) ^ high)                 lane 0 and 1
    key[lane]   = mix(mix(root[lane] ^ frame) ^ (codebook << 16 | draw))
    word(id)    = mix(mix(id + GOLDEN mod 2^32) ^ key[0]) ^ key[1]
    v(id)       = min((word + 0.5) / 2^32, 1 - 2^-24)                in float32
    gumbel(id)  = -log(-log1p(-v))

`frame` counts the request's produced frames, so the first token has frame 0. Codebook 0
is the outer token, i a residual code; draw 0 is the first draw, 1 a resample. u = 1 - v is
uniform; written this way the large values, which decide, keep the full 32 bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["gumbel", "keys", "roots", "spread_ids"]

_WORD = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9
_LANES = (0x243F6A88, 0x85A308D3)  # the first digits of pi
_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B
_SECOND_SIGNED = _SECOND - (1 << 32)  # the same factor mod 2^32, small enough for int64


def _mix(x: Tensor) -> Tensor:
    x = x ^ (x >> 16)
    x = x.mul_(_FIRST).bitwise_and_(_WORD)
    x = x ^ (x >> 15)
    x = x.mul_(_SECOND_SIGNED).bitwise_and_(_WORD)
    return x ^ (x >> 16)


def _mix_word(x: int) -> int:
    x ^= x >> 16
    x = x * _FIRST & _WORD
    x ^= x >> 15
    x = x * _SECOND & _WORD
    return x ^ (x >> 16)


def roots(seed: int) -> tuple[int, int]:
    """The two words that a seed contributes, computed once a request on the host."""
    low, high = seed & _WORD, (seed >> 32) & _WORD
    first, second = (_mix_word(_mix_word(lane ^ low) ^ high) for lane in _LANES)
    return first, second


def keys(roots: Tensor, frames: Tensor, streams: Tensor) -> Tensor:
    """The keys of draws: roots [B, 2], frames [B], streams [S] -> [B, S, 2], all int64.

    A stream is `codebook << 16 | draw`.
    """
    by_frame = _mix(roots ^ frames[:, None])
    return _mix(by_frame[:, None, :] ^ streams[None, :, None])


def spread_ids(ids: Tensor) -> Tensor:
    """The words of ids int64, which no request changes: computed once for a vocabulary."""
    return _mix((ids + _GOLDEN) & _WORD)


def gumbel(keys: Tensor, spread: Tensor) -> Tensor:
    """Gumbel noise: keys [..., 2] and spread ids [V] -> float32 [..., V]."""
    words = _mix(spread ^ keys[..., :1]) ^ keys[..., 1:]
    uniform = (words.to(torch.float32) + 0.5).mul_(2.0**-32).clamp_(max=1.0 - 2.0**-24)
    return uniform.neg_().log1p_().neg_().log_().neg_()
