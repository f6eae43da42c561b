"""Stands in for the SDK `tinker` where it isn't installed: what flow_tinker uses of it, over the machine beside it in this process. What is saved lies in
the folder TINKER_STAND_IN. TINKER_STAND_IN_FAULT names a file with what goes wrong, as `forward 3 hang`: the third forward from now on.
"""
import os, pathlib, sys, time
from types import SimpleNamespace

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from tinker_machine import RANK, Machine

from . import types

__version__ = "stand-in"
MACHINE = Machine(os.environ["TINKER_STAND_IN"], os.environ.get("TINKER_STAND_IN_REDUCTION", "mean"), clips=False)
COUNTS = {}


class Done:
    def __init__(self, value):
        self.value = value

    def result(self, timeout=None):
        return self.value


def faulty(what):
    """What is to go wrong with this call."""
    COUNTS[what] = COUNTS.get(what, 0) + 1
    path = os.environ.get("TINKER_STAND_IN_FAULT", "")
    if not os.path.exists(path):
        COUNTS[what] = 0
        return None
    call, number, kind = pathlib.Path(path).read_text().split()
    if call != what or COUNTS[what] != int(number):
        return None
    os.remove(path)
    if kind == "hang":
        time.sleep(10_000)
    if kind == "expired":
        MACHINE.clients.clear()
    if kind == "die":
        os._exit(9)
    if kind == "refuse":
        raise RuntimeError(f"HTTP 429: too many requests, with the key {os.environ.get('TINKER_API_KEY')}")
    return kind


def read(datum):
    inputs = {name: tensor.numbers for name, tensor in datum.loss_fn_inputs.items()}
    return numpy.array(datum.model_input.tokens), inputs.pop("target_tokens"), inputs


class Training:
    def __init__(self, name):
        self.model_id = name

    def answer(self, found, kind):
        if kind == "nan":
            found = [numbers * numpy.nan for numbers in found]
        return Done(SimpleNamespace(loss_fn_outputs=[{"logprobs": types.TensorData(numbers)} for numbers in found], metrics={}))

    def forward(self, data, loss, config=None):
        return self.answer(MACHINE.forward(self.model_id, map(read, data)), faulty("forward"))

    def forward_backward(self, data, loss, config=None):
        kind = faulty("backward")
        return self.answer(MACHINE.forward_backward(self.model_id, list(map(read, data)), loss, config), kind)

    def optim_step(self, adam):
        kind = faulty("step")
        norm = MACHINE.optim_step(self.model_id, adam.learning_rate, adam.beta1, adam.beta2, adam.eps, adam.weight_decay, adam.grad_clip_norm)
        return Done(SimpleNamespace(metrics={"stand.in/grad_norm": float("nan") if kind == "nan" else norm}))

    def save_state(self, name):
        faulty("save")
        return Done(SimpleNamespace(path=MACHINE.save(self.model_id, name)))

    save_weights_for_sampler = save_state


class Sampling:
    def __init__(self, path):
        self.path = path

    def sample(self, prompt, count, asked):
        tokens, logprobs, why = MACHINE.sample(self.path, prompt.tokens, asked.max_tokens, asked.temperature, asked.seed, asked.stop or [])
        return Done(SimpleNamespace(sequences=[SimpleNamespace(tokens=tokens, logprobs=logprobs, stop_reason=why)]))

    def compute_logprobs(self, prompt):
        return Done(MACHINE.weigh(self.path, prompt.tokens))


class Rest:
    def get_checkpoint_archive_url_from_tinker_path(self, path):
        found = pathlib.Path(MACHINE.folder, f"{MACHINE.saved(path)}.tar.gz")
        found.write_bytes(MACHINE.archive(path))
        return Done(SimpleNamespace(url=found.as_uri()))


class ServiceClient:
    def __init__(self, base_url=None, api_key=None):
        faulty("connect")

    def get_server_capabilities(self):
        return SimpleNamespace(supported_models=[SimpleNamespace(model_name=os.environ.get("TINKER_STAND_IN_MODEL", "tiny"), max_context_length=128)])

    def create_lora_training_client(self, base_model, rank, seed, train_unembed):
        return Training(MACHINE.create(rank, seed))

    def create_training_client_from_state_with_optimizer(self, path):
        return Training(MACHINE.create(RANK, 0, MACHINE.saved(path)))

    def create_training_client_from_state(self, path):
        client = self.create_training_client_from_state_with_optimizer(path)
        own = MACHINE.client(client.model_id)
        own.update(steps=0, m={key: 0 * moment for key, moment in own["m"].items()}, v={key: 0 * moment for key, moment in own["v"].items()})
        return client

    def create_sampling_client(self, model_path):
        return Sampling(model_path)

    def create_rest_client(self):
        return Rest()
