"""flow_tinker against a plain loop of PyTorch and PEFT: three steps of AdamW by a server of Tinker's protocol that runs, told by flow's own
messages. It needs torch, transformers, peft and the SDK `tinker`.

    FLOW_TINKER_URL=http://127.0.0.1:18321 MODEL=FOLDER python python/tests/tinker_parity.py

SkyRL computes q, k, v by one fused matrix and gate, up by another, each with one lora_A; SHARED=1, the default, has the plain loop do so too.
"""
import json, os, pathlib, sys, tempfile, unittest

import numpy
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from flow_tinker.calls import Calls
from flow_tinker.server import Server
from flow_tinker.trainer import Trainer
from safetensors.torch import load_file
from tinker_messages import logprobs, opening, step

URL, MODEL, SHARED = os.environ["FLOW_TINKER_URL"], os.environ["MODEL"], os.environ.get("SHARED", "1") == "1"
TOGETHER = (("self_attn", ("q_proj", "k_proj", "v_proj")), ("mlp", ("gate_proj", "up_proj")))
CLOSE = 1e-6


def plain(folder):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    net = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager"), folder, is_trainable=True)
    for layer in net.get_base_model().model.layers if SHARED else []:
        for part, names in TOGETHER:
            modules = [getattr(getattr(layer, part), name) for name in names]
            for module in modules[1:]:
                assert torch.equal(module.lora_A.default.weight, modules[0].lora_A.default.weight)
                module.lora_A.default.weight = modules[0].lora_A.default.weight
    return net


def rows():
    random = numpy.random.default_rng(1)
    return [(random.integers(0, 256, n).tolist(), random.integers(0, 256, m).tolist()) for n, m in ((5, 4), (3, 9), (4, 3), (6, 9))]


def computed(net, rows):
    all = []
    for prompt, response in rows:
        logs = torch.log_softmax(net(torch.tensor([[*prompt, *response[:-1]]])).logits[0, len(prompt) - 1 :].float(), -1)
        all.append(logs.gather(1, torch.tensor(response)[:, None])[:, 0])
    return torch.cat(all)


def opened():
    calls = Calls(600)
    trainer = Trainer(Server(URL, calls))
    vocabulary = json.load(open(f"{MODEL}/config.json"))["vocab_size"]
    about, _ = trainer.answer(opening(MODEL, vocabulary), b"")
    return trainer, about


def exported(trainer, request="export"):
    folder = tempfile.mkdtemp()
    trainer.answer(dict(request=request, folder=folder, version=0), b"")
    return folder


class Parity(unittest.TestCase):
    def test_three_steps_are_those_of_a_plain_loop(self):
        trainer, about = opened()
        self.addCleanup(trainer.close)
        print(about, file=sys.stderr)
        own, random = rows(), numpy.random.default_rng(2)
        begun = exported(trainer)
        net = plain(begun)
        trained = list({id(p): p for p in net.parameters() if p.requires_grad}.values())
        optimizer = torch.optim.AdamW(trained, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
        first = computed(net, own).detach().numpy()
        for number in range(3):
            expected = computed(net, own)
            by = random.normal(size=len(expected)).astype("f4")
            stepped, found = step(trainer, own, by)
            optimizer.zero_grad()
            (expected * torch.tensor(by)).sum().backward()
            norm = torch.stack([p.grad.double().square().sum() for p in trained]).sum().sqrt().item()
            optimizer.step()
            theirs = load_file(f"{exported(trainer)}/adapter_model.safetensors")
            ours = {name.replace(".default", ""): p.detach() for name, p in net.named_parameters(remove_duplicate=False) if p.requires_grad}
            self.assertEqual(sorted(ours), sorted(theirs))
            apart = max((ours[name] - theirs[name]).abs().max().item() for name in ours)
            line = f"step {number + 1}: log-probabilities {abs(found - expected.detach().numpy()).max():.1e} apart, norm {stepped['grad_norm'] / norm - 1:+.1e}, weights {apart:.1e}"
            print(line, file=sys.stderr)
            self.assertLess(abs(stepped["grad_norm"] / norm - 1), 1e-5)
            self.assertLess(apart, CLOSE)
        self.assertLess(abs(logprobs(trainer, own, gradient=False, reference=True) - first).max(), 1e-4, "the reference is what it began with")
        # From what was saved, in another session: the next step is the same. Without decay, which on SkyRL shrinks the adapters of all clients.
        saved = exported(trainer, "save")
        other, _ = opened()
        self.addCleanup(other.close)
        other.answer(dict(request="load", folder=saved, steps=3), b"")
        norms = [step(each, own, by, weight_decay=0.0)[0]["grad_norm"] for each in (trainer, other)]
        a, b = (load_file(f"{exported(each)}/adapter_model.safetensors") for each in (trainer, other))
        apart = max((a[name] - b[name]).abs().max().item() for name in a)
        print(f"from a saved state: the next step {apart:.1e} apart, norms {norms}", file=sys.stderr)
        self.assertEqual(apart, 0.0)


if __name__ == "__main__":
    sys.stderr.flush()
    result = unittest.main(exit=False).result
    os._exit(0 if result.wasSuccessful() else 1)
