"""flow_train against a plain loop of transformers and torch, on a tiny Gemma 3, whole and by an adapter, with one process and with two; what happens
where a rank dies; and another number of ranks. `make train-parity` runs it: it needs torch, transformers and peft. With FLOW_TRAIN_DEVICE=cuda in the
environment the trainer computes on GPUs, one a rank; what needs two is skipped where there is one.
"""
import json, os, pathlib, signal, struct, sys, tempfile, time, unittest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch.utils._python_dispatch import TorchDispatchMode

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parent.parent)]
from trainer_client import Client

# How many ranks can be had.
MOST = min(2, torch.cuda.device_count()) if os.environ.get("FLOW_TRAIN_DEVICE") == "cuda" else 2
two_ranks = unittest.skipIf(MOST < 2, "one GPU")
VOCABULARY = 300
STEPS = 3


def tiny(folder):
    """A Gemma 3 with sliding windows, its own norms and a tied output, as transformers makes it."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    torch.manual_seed(0)
    sizes = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16)
    layers = ["sliding_attention", "sliding_attention", "full_attention"]
    Gemma3ForCausalLM(Gemma3TextConfig(vocab_size=320, max_position_embeddings=256, sliding_window=8, layer_types=layers, **sizes)).save_pretrained(folder)
    return folder


def mixing(folder):
    """An LFM2, whose convolutions read the tokens before."""
    from transformers import Lfm2Config, Lfm2ForCausalLM

    torch.manual_seed(0)
    sizes = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, layer_types=["conv", "full_attention"])
    net = Lfm2ForCausalLM(Lfm2Config(vocab_size=320, max_position_embeddings=256, **sizes))
    for name, p in net.named_parameters():
        if ".conv." in name:
            p.data *= 5
    net.save_pretrained(folder)
    return folder


def rows():
    g = torch.Generator().manual_seed(1)
    lengths = torch.randint(2, 24, (9, 2), generator=g).tolist()
    return [tuple(torch.randint(3, 290, (n,), generator=g).tolist() for n in both) for both in lengths]


def conversations():
    """Rows that begin with one another as those of agents do: two tasks, two episodes each, three turns an episode, some turns twice."""
    g = torch.Generator().manual_seed(3)
    draw = lambda n: torch.randint(3, 290, (n,), generator=g).tolist()
    made = []
    for _ in range(2):
        task = draw(11)
        for _ in range(2):
            seen = list(task)
            for turn in range(3):
                answer = draw(4 + turn)
                made.append((list(seen), answer))
                seen += answer + draw(3)
        made.append((list(task), draw(5)))
    return made + made[1:3]


class Plain:
    """The loop that anybody would write: one row at a time, nothing shared, nothing cut."""

    def __init__(self, base, lora=None):
        from transformers import AutoModelForCausalLM

        self.net = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        if lora:
            from peft import PeftModel

            self.net = PeftModel.from_pretrained(self.net, lora, is_trainable=True)
        trained = [p for p in self.net.parameters() if p.requires_grad]
        groups = [{"params": [p for p in trained if p.dim() > 1], "weight_decay": 0.01}, {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0}]
        self.trained, self.optimizer = trained, torch.optim.AdamW(groups, lr=1e-3, eps=1e-3)

    def figures(self, rows, temperature=1.0):
        logprobs, entropies = [], []
        for prompt, response in rows:
            ids = torch.tensor([prompt + response[:-1]])
            logs = F.log_softmax(self.net(ids).logits[0, len(prompt) - 1 :, :VOCABULARY] / temperature, -1)
            logprobs.append(logs.gather(1, torch.tensor(response)[:, None])[:, 0])
            entropies.append(-(logs.exp() * logs).sum(-1))
        return torch.cat(logprobs), torch.cat(entropies)

    def step(self, figures, gradients):
        self.optimizer.zero_grad()
        torch.autograd.backward(list(figures), list(gradients))
        norm = torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        return norm.item()


def loss(logprobs, entropies, acted, advantage):
    """A clipped ratio and an entropy bonus: any loss of these two numbers will do."""
    ratio = (logprobs - acted).exp()
    return -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean() - 0.1 * entropies.mean()


def elsewhere(client, rows, loss_of):
    """One step by a trainer, which is given the gradient of the loss by its figures."""
    client.ask("zero")
    figures = client.trace(rows, entropy=True, temperature=0.8)
    leaves = [figures[0].clone().requires_grad_(), figures[1].clone().requires_grad_()]
    client.back(*torch.autograd.grad(loss_of(*leaves), leaves))
    return figures, client.step(1e-3, eps=1e-3)


class Parity(unittest.TestCase):
    def check(self, ranks, adapted):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            base = tiny(folder / "base")
            client = Client(ranks)
            lora = dict(rank=4, alpha=8.0, dropout=0.0, targets=["all-linear"]) if adapted else None
            opened = client.open(base, lora=lora)
            self.assertEqual((opened["model"], client.hello["ranks"]), ("Gemma3ForCausalLM", ranks))
            self.assertLessEqual(opened["here"], opened["trained"] / ranks + 64, "each rank has its share of what is trained")
            (folder / "start").mkdir()
            client.ask("export", folder=str(folder / "start"), version=0)
            plain, own = Plain(base, folder / "start" if adapted else None), rows()
            acted = plain.figures(own)[0].detach() + 0.1
            advantage = torch.randn(len(acted), generator=torch.Generator().manual_seed(2))
            loss_of = lambda logprobs, entropies: loss(logprobs, entropies, acted, advantage)
            for _ in range(STEPS):
                figures = plain.figures(own, 0.8)
                leaves = [f.detach().clone().requires_grad_() for f in figures]
                gradients = torch.autograd.grad(loss_of(*leaves), leaves)
                found, stepped = elsewhere(client, own, loss_of)
                for ours, theirs in zip(found, figures):
                    self.assertLess((ours - theirs).abs().max().item(), 2e-5)
                self.assertAlmostEqual(stepped["grad_norm"], plain.step(figures, gradients), places=4)
            # The reference is what it began with, and is asked between two passes of the same step.
            begun = Plain(base, folder / "start" if adapted else None).figures(own)[0]
            self.assertLess((client.trace(own, gradient=False, reference=True)[0] - begun).abs().max().item(), 2e-5)
            self.assertLess((client.trace(own, gradient=False)[0] - plain.figures(own)[0]).abs().max().item(), 2e-5)
            (folder / "saved").mkdir()
            client.ask("save", folder=str(folder / "saved"), version=STEPS)
            name = "adapter_model.safetensors" if adapted else "model.safetensors"
            saved = load_file(folder / "saved" / name)
            wanted = {n.replace(".default", ""): p for n, p in plain.net.named_parameters() if p.requires_grad}
            self.assertEqual(sorted(saved), sorted(wanted))
            worst = max((saved[n] - wanted[n]).abs().max().item() for n in saved)
            self.assertLess(worst, 1e-5)
            print(f"Gemma 3, {ranks} ranks, {'an adapter' if adapted else 'whole'}: weights differ by at most {worst:.1e}", file=sys.stderr)
            expected = elsewhere(client, own, loss_of)[1], client.trace(own, gradient=False)
            self.assertEqual(client.close(), 0)
            # On the other number of ranks, with the optimiser's moments.
            other = Client(min(3 - ranks, MOST))
            other.open(base, lora=lora)
            other.ask("load", folder=str(folder / "saved"), steps=STEPS)
            self.assertAlmostEqual(elsewhere(other, own, loss_of)[1]["grad_norm"], expected[0]["grad_norm"], places=4)
            self.assertLess((other.trace(own, gradient=False)[0] - expected[1][0]).abs().max().item(), 2e-5)
            other.close()

    def layouts(self, ranks, adapted, kind=tiny):
        """However rows lie beside one another and whatever is kept of them, a step ends with the same weights, and tells how much it read."""
        rows, ended = conversations(), {}
        distinct = len({tuple([*p, *r[:-1]][: i + 1]) for p, r in rows for i in range(len(p) + len(r) - 1)})
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            base = kind(folder / "base")
            plain = None
            ways = [(layout, checkpointing, None) for layout in ("padded", "packed", "tree") for checkpointing in (True, False)]
            for layout, checkpointing, budget in [*ways, ("tree", None, None), ("tree", False, 0), ("padded", True, 0)]:
                client = Client(ranks, budget=budget)
                lora = dict(rank=4, alpha=8.0, dropout=0.0, targets=["all-linear"]) if adapted else None
                client.open(base, lora=lora, layout=layout, gradient_checkpointing=checkpointing, tokens=400 // ranks if budget is None else 60)
                if plain is None:
                    (folder / "start").mkdir()
                    client.ask("export", folder=str(folder / "start"), version=0)
                    plain = Plain(base, folder / "start" if adapted else None)
                    acted = plain.figures(rows)[0].detach() + 0.1
                    advantage = torch.randn(len(acted), generator=torch.Generator().manual_seed(2))
                    figures = plain.figures(rows, 0.8)
                    leaves = [f.detach().clone().requires_grad_() for f in figures]
                    norm = plain.step(figures, torch.autograd.grad(loss(*leaves, acted, advantage), leaves))
                    wanted = {n.replace(".default", ""): p for n, p in plain.net.named_parameters() if p.requires_grad}
                found, stepped = elsewhere(client, rows, lambda *both: loss(*both, acted, advantage))
                case = f"{layout}, checkpointing {checkpointing}, budget {budget}, {ranks} ranks"
                self.assertEqual(client.traced["layout"], layout, case)
                for ours, theirs in zip(found, figures):
                    self.assertLess((ours - theirs).abs().max().item(), 2e-5, case)
                self.assertAlmostEqual(stepped["grad_norm"], norm, places=4, msg=case)
                self.assertGreater(stepped["seconds"]["backward"], 0)
                to = folder / f"saved-{len(ended)}"
                to.mkdir()
                client.ask("export", folder=str(to), version=1)
                saved = load_file(to / ("adapter_model.safetensors" if adapted else "model.safetensors"))
                ended[case] = max((saved[n] - wanted[n]).abs().max().item() for n in saved)
                self.assertLess(ended[case], 1e-5, case)
                if layout == "tree" and budget is None:
                    self.assertLessEqual(client.traced["computed"], (1.05 if ranks == 1 else 1.2) * distinct, case)
                if layout == "packed":
                    self.assertGreater(client.traced["computed"], 1.3 * distinct)
                self.assertEqual(client.close(), 0)
        print(f"{ranks} ranks, {'an adapter' if adapted else 'whole'}: weights differ by at most {max(ended.values()):.1e}", file=sys.stderr)

    def test_layouts_whole(self):
        self.layouts(1, False)

    def test_layouts_by_an_adapter(self):
        self.layouts(1, True)

    @two_ranks
    def test_layouts_on_two_ranks(self):
        self.layouts(2, False)

    @two_ranks
    def test_layouts_by_an_adapter_on_two_ranks(self):
        self.layouts(2, True)

    def test_layers_that_mix_tokens_are_padded(self):
        """A model whose convolutions run over tokens that lie side by side isn't computed so."""
        with tempfile.TemporaryDirectory() as folder:
            base = mixing(pathlib.Path(folder) / "base")
            client, rows = Client(1), conversations()
            client.open(base)
            found = client.trace(rows)[0]
            self.assertEqual(client.traced["layout"], "padded")
            self.assertLess((found - Plain(base).figures(rows)[0]).abs().max().item(), 2e-5)
            client.close()

    def test_whole_on_one_rank(self):
        self.check(1, False)

    @two_ranks
    def test_whole_on_two_ranks(self):
        self.check(2, False)

    def test_an_adapter_on_one_rank(self):
        self.check(1, True)

    @two_ranks
    def test_an_adapter_on_two_ranks(self):
        self.check(2, True)

    def bf16(self, lora):
        """In bf16 weights are sharded by one rank, too."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            base, own = tiny(folder / "base"), rows()
            client, plain = Client(MOST), Plain(base)
            client.open(base, dtype="bf16", lora=lora)
            found = client.trace(own, gradient=False)[0]
            difference = (found - plain.figures(own)[0]).abs()
            self.assertTrue(1e-5 < difference.max().item() < 0.1, difference.max())
            likelier = lambda logprobs, entropies: -logprobs.mean() + 0 * entropies.sum()
            self.assertTrue(elsewhere(client, own, likelier)[1]["finite"])
            (folder / "saved").mkdir()
            client.ask("save", folder=str(folder / "saved"), version=1)
            saved = load_file(folder / "saved" / ("adapter_model.safetensors" if lora else "model.safetensors"))
            self.assertEqual({t.dtype for t in saved.values()}, {torch.float32})
            if not lora:
                # A step of 1e-3 is less than what bf16 can tell of a weight of 0.5, and it isn't lost.
                moved = saved["model.norm.weight"] - dict(plain.net.named_parameters())["model.norm.weight"]
                self.assertTrue(0 < moved.abs().max().item() < 2e-3)
            expected = client.trace(own, gradient=False)
            self.assertGreater((expected[0] - found).abs().max().item(), 1e-5)
            # Loaded again, with its moments, it goes on as it would have.
            client.ask("load", folder=str(folder / "saved"), steps=1)
            self.assertTrue(torch.equal(client.trace(own, gradient=False)[0], expected[0]))
            self.assertTrue(elsewhere(client, own, likelier)[1]["finite"])
            self.assertEqual(client.close(), 0)

    def test_bf16_computes_with_masters_in_f32(self):
        self.bf16(None)

    def test_bf16_computes_beside_an_adapter_in_f32(self):
        self.bf16(dict(rank=4, alpha=8.0, dropout=0.0, targets=["all-linear"]))

    def test_choices_share_the_probability_among_those_allowed(self):
        with tempfile.TemporaryDirectory() as folder:
            base = tiny(pathlib.Path(folder) / "base")
            client = Client(1)
            client.open(base)
            own = [([5, 6], [7]), ([5, 6], [9])]
            found = client.trace(own, gradient=False, allowed=[[7, 8], []])
            logs = F.log_softmax(Plain(base).net(torch.tensor([[5, 6]])).logits[0, -1, :VOCABULARY], -1)
            self.assertAlmostEqual(found[0][0].item(), (logs[7] - torch.logsumexp(logs[[7, 8]], 0)).item(), places=5)
            self.assertAlmostEqual(found[0][1].item(), logs[9].item(), places=5)
            client.close()

    @two_ranks
    def test_a_rank_that_dies_ends_the_trainer(self):
        with tempfile.TemporaryDirectory() as folder:
            base = tiny(pathlib.Path(folder) / "base")
            client = Client(2)
            client.open(base)
            children = pathlib.Path(f"/proc/{client.process.pid}/task/{client.process.pid}/children").read_text().split()
            os.kill(int(children[-1]), signal.SIGKILL)
            begun = time.time()
            with self.assertRaises((OSError, json.JSONDecodeError)):
                client.trace(rows())
            self.assertNotEqual(client.process.wait(60), 0)
            self.assertLess(time.time() - begun, 60)


class Asked(TorchDispatchMode):
    """What makes a GPU's program wait: an answer of the device."""

    WAITS = ("_local_scalar_dense", "nonzero", "_unique2", "is_nonzero", "masked_select")

    def __init__(self):
        super().__init__()
        self.waits = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        # A mask as an index asks how many there are.
        masks = name == "index" and any(index is not None and index.dtype == torch.bool for index in args[1])
        self.waits += [name] if name in self.WAITS or masks else []
        return function(*args, **(kwargs or {}))


class Waits(unittest.TestCase):
    """What a GPU would wait for, counted on a CPU."""

    def setUp(self):
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

    def tearDown(self):
        torch.distributed.destroy_process_group()

    def test_a_share_of_the_memory_is_kept_to(self):
        """With `memory` the same figures come of less that is kept."""
        from flow_train.memory import Memory, available

        cpu = torch.device("cpu")
        self.assertGreater(Memory(cpu, []).budget, Memory(cpu, [], 0.05).budget)
        self.assertLess(abs(available(cpu, 0.2) - available(cpu, 0.1) - 0.1 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")), 1 << 26)
        found = []
        for share in (None, 1e-6):
            with tempfile.TemporaryDirectory() as folder:
                client = Client(1)
                client.open(tiny(pathlib.Path(folder) / "base"), gradient_checkpointing=False, memory=share)
                figures, _ = elsewhere(client, rows(), lambda logprobs, entropies: -logprobs.mean() + 0 * entropies.sum())
                found.append((figures, client.trace(rows(), gradient=False)))
                client.close()
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(*found)))

    def test_a_pass_copies_once_and_waits_once(self):
        from flow_train import layout
        from flow_train.trainer import Trainer

        rows, copies, sent = conversations(), [], layout.sent
        sequences, at = [[*p, *r[:-1]] for p, r in rows], [(i, len(p) + j - 1, t) for i, (p, r) in enumerate(rows) for j, t in enumerate(r)]
        # Every third token was one among three.
        allowed = [[t, 7, 9] if i % 3 == 0 else [] for i, (_, _, t) in enumerate(at)]
        numbers = [x for s in sequences for x in s] + [a[0] for a in at] + [a[1] for a in at] + [a[2] for a in at]
        payload = struct.pack(f"<{len(numbers)}I{len(at)}f", *numbers, *[1.0] * len(at)) + b"".join(struct.pack(f"<{len(a)}I", *a) for a in allowed)
        head = dict(sequences=[len(s) for s in sequences], choices=len(at), gradient=True, entropy=False, reference=False, allowed=[len(a) for a in allowed])
        with tempfile.TemporaryDirectory() as folder:
            base, trainer = tiny(pathlib.Path(folder) / "base"), Trainer(torch.device("cpu"))
            opening = dict(request="open", base=str(base), dtype="f32", tokens=30, seed=1, vocabulary=VOCABULARY, gradient_checkpointing=False)
            small = Trainer(torch.device("cpu"))
            small.answer({**opening, "memory": 1e-6}, b"")
            small.answer({**head, "request": "trace"}, payload)
            self.assertTrue(all(out is None for *_, out in small.traced), "without memory all of it is computed again")
            trainer.answer(opening, b"")
            trainer.answer({**head, "request": "trace"}, payload)
            trainer.answer(dict(request="zero"), b"")
            layout.sent = lambda tensor, device: copies.append(len(tensor)) or sent(tensor, device)
            try:
                with Asked() as asked:
                    answer, figures = trainer.answer({**head, "request": "trace"}, payload)
            finally:
                layout.sent = sent
            batches = len(trainer.traced)
            self.assertTrue(all(out is not None for *_, out in trainer.traced), "there is memory for all of it")
            self.assertGreater(batches, 2)
            self.assertEqual((len(copies), asked.waits), (batches, []), "the figures are its answer, and nothing else")


if __name__ == "__main__":
    unittest.main()
