"""The other side of `cargo bench --bench policy`: the same transformer in eager PyTorch, driven over standard input.

A line names a case, a number of rows, and the rows of one pass; the answer is seconds for all rows. Prompts and responses are
random tokens, none of them equal, as on the other side.
"""

import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, LAYERS, WIDTH, HEADS, KV, HIDDEN, CONTEXT = 300, 3, 128, 4, 2, 336, 512
HEAD = WIDTH // HEADS
PROMPT, FREE = 90, 16
CHOICES = [258, 259, 260, 261]


def turn(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, eps=1e-6), nn.RMSNorm(WIDTH, eps=1e-6)
        self.q = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.k = nn.Linear(WIDTH, KV * HEAD, bias=False)
        self.v = nn.Linear(WIDTH, KV * HEAD, bias=False)
        self.o = nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x, cos, sin, past=None, keep=False):
        rows, places, _ = x.shape
        h = self.norm1(x)
        q = turn(self.q(h).view(rows, places, HEADS, HEAD).transpose(1, 2), cos, sin)
        k = turn(self.k(h).view(rows, places, KV, HEAD).transpose(1, 2), cos, sin)
        v = self.v(h).view(rows, places, KV, HEAD).transpose(1, 2)
        if past is not None:
            k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(rows, places, WIDTH))
        h = self.norm2(x)
        x = x + self.down(F.silu(self.gate(h)) * self.up(h))
        return x, ((k, v) if keep else None)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        nn.init.normal_(self.head.weight, std=0.02)
        frequency = 10000.0 ** (-torch.arange(HEAD // 2) / (HEAD // 2))
        angle = torch.outer(torch.arange(CONTEXT), frequency).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, ids, past=None, keep=False, tail=1):
        """Logits of the last `tail` places: nobody pays for the others."""
        start = 0 if past is None else past[0][0].shape[2]
        places = slice(start, start + ids.shape[1])
        cos, sin = self.cos[places], self.sin[places]
        x, kept = self.embed(ids), []
        for i, block in enumerate(self.blocks):
            x, pair = block(x, cos, sin, None if past is None else past[i], keep)
            kept.append(pair)
        return self.head(self.norm(x[:, -tail:])), kept


def mask():
    held = torch.full((VOCAB,), -1e30)
    held[CHOICES] = 0.0
    return held


@torch.inference_mode()
def choose(model, prompts, size):
    """One choice among four actions a row."""
    for ids in prompts.split(size):
        logits = model(ids)[0][:, -1] + mask()
        all_ = F.log_softmax(logits, dim=-1)
        token = torch.multinomial(all_.exp(), 1)
        all_.gather(1, token).tolist(), token.tolist()


@torch.inference_mode()
def write(model, prompts, size):
    """FREE tokens a row, with cached keys and values."""
    for ids in prompts.split(size):
        logits, past = model(ids, keep=True)
        tokens, logprobs = [], []
        for step in range(FREE):
            all_ = F.log_softmax(logits[:, -1], dim=-1)
            token = torch.multinomial(all_.exp(), 1)
            tokens.append(token)
            logprobs.append(all_.gather(1, token))
            if step + 1 < FREE:
                logits, past = model(token, past, keep=True)
        torch.cat(tokens, 1).tolist(), torch.cat(logprobs, 1).tolist()


def learn(model, optimiser, prompts, size, held):
    """The clipped policy gradient: one optimiser step, its gradient summed over passes of `size` rows."""
    rows = prompts.shape[0]
    tail = 1 if held else FREE
    replies = torch.randint(258, 262, (rows, 1)) if held else torch.randint(2, VOCAB, (rows, FREE))
    old = torch.full((rows, tail), -1.38 if held else -5.7)
    advantage = torch.randn(rows, 1)
    optimiser.zero_grad()
    for at in range(0, rows, size):
        part = slice(at, at + size)
        ids = torch.cat((prompts[part], replies[part][:, :-1]), 1)
        logits = model(ids, tail=tail)[0]
        if held:
            logits = logits + mask()
        all_ = F.log_softmax(logits, dim=-1)
        new = all_.gather(-1, replies[part].unsqueeze(-1)).squeeze(-1)
        entropy = -(all_.detach().exp() * all_.detach()).sum(-1)
        ratio = (new - old[part]).exp()
        a = advantage[part]
        loss = torch.maximum(-a * ratio, -a * ratio.clamp(0.8, 1.2))
        loss = torch.where(a < 0, torch.minimum(loss, -a * 3.0), loss)
        (loss.sum() / (rows * tail)).backward()
        loss.mean().item(), entropy.mean().item(), ratio.mean().item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()


def main():
    torch.set_num_threads(int(os.environ.get("BENCH_THREADS", "2")))
    torch.manual_seed(1)
    model = Model()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0.01)
    cases = {
        "choose": choose,
        "write": write,
        "learn-choice": lambda m, p, size: learn(m, optimiser, p, size, True),
        "learn-text": lambda m, p, size: learn(m, optimiser, p, size, False),
    }
    clock = time.process_time if os.environ.get("BENCH_CLOCK") == "cpu" else time.perf_counter
    print("ready", torch.__version__, sum(p.numel() for p in model.parameters()), flush=True)
    for line in sys.stdin:
        name, rows, size = line.split()
        prompts = torch.randint(2, VOCAB, (int(rows), PROMPT))
        start = clock()
        cases[name](model, prompts, int(size))
        print(clock() - start, flush=True)


if __name__ == "__main__":
    main()
