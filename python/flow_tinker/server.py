"""A server of Tinker's protocol, by the SDK `tinker`: the only file that knows it."""
import os, secrets, socket
from urllib.parse import urlparse

import numpy

from . import KEY
from .calls import Refused
from .files import download

LOCAL = ("127.0.0.1", "localhost", "::1")


class Server:
    def __init__(self, url, calls):
        # It would send what was asked and failed, headers among it.
        os.environ.setdefault("TINKER_TELEMETRY", "0")
        try:
            import tinker
        except ImportError as error:
            raise Refused(f"the SDK is missing ({error}): `pip install tinker==VERSION`, the version that the server's documentation names") from None
        self.sdk, self.url, self.calls = tinker, url.rstrip("/"), calls
        self.key = os.environ.get(KEY, "")
        if not self.key:
            if urlparse(url).hostname not in LOCAL:
                raise Refused(f"{KEY} isn't set, and {url} isn't on this machine")
            self.key = "tml-none"
        calls.reachable, calls.url = self.reachable, self.url
        self.session = secrets.token_hex(4)
        self.saved = 0
        self.service = calls("connect", lambda: tinker.ServiceClient(base_url=self.url, api_key=self.key))

    def reachable(self):
        """Whether something listens there."""
        parts = urlparse(self.url)
        try:
            socket.create_connection((parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)), timeout=5).close()
            return True
        except OSError:
            return False

    def version(self):
        return getattr(self.sdk, "__version__", "?")

    def models(self):
        """What it serves: the name of each model and its longest sequence, where it says one."""
        said = self.calls("get_server_capabilities", self.service.get_server_capabilities)
        return {model.model_name: getattr(model, "max_context_length", None) for model in said.supported_models if model.model_name}

    def name(self):
        """A name that nothing was saved under: the SDK repeats a refusal of one that exists for ever."""
        self.saved += 1
        return f"flow-{self.session}-{self.saved}"

    def create(self, base, rank, seed):
        return self.calls("create_lora_training_client", lambda: self.service.create_lora_training_client(base_model=base, rank=rank, seed=seed & 0x7FFFFFFF, train_unembed=False))

    def restore(self, path, moments=True):
        """A client with the weights that were saved there, and the optimiser's moments."""
        name = "create_training_client_from_state" + ("_with_optimizer" if moments else "")
        return self.calls(name, lambda: getattr(self.service, name)(path))

    def release(self, client):
        """Frees a client's place, where the server can; else it is free when the session is over."""
        try:
            from tinker import types
            from tinker.lib.client_connection_pool_type import ClientConnectionPoolType

            async def unload():
                with client.holder.aclient(ClientConnectionPoolType.TRAIN) as http:
                    await http.models.unload(request=types.UnloadModelRequest(model_id=client.model_id))

            self.calls("unload_model", lambda: client.holder.run_coroutine_threadsafe(unload()))
        except (Refused, ImportError, AttributeError):
            pass

    # Numbers.

    def datum(self, sequence, **inputs):
        types = self.sdk.types
        tensors = {"target_tokens": types.TensorData.from_numpy(numpy.asarray(sequence.targets, "int64"))}
        tensors |= {name: types.TensorData.from_numpy(numpy.asarray(numbers, "float32")) for name, numbers in inputs.items()}
        return types.Datum(model_input=types.ModelInput.from_ints([int(token) for token in sequence.tokens]), loss_fn_inputs=tensors)

    def forward(self, client, sequences):
        """The log-probability of each target."""
        data = [self.datum(sequence, weights=numpy.ones(len(sequence))) for sequence in sequences]
        return self.logprobs("forward", sequences, self.calls("forward", lambda: client.forward(data, "cross_entropy")))

    def logprobs(self, call, sequences, answer):
        found = [output["logprobs"].to_numpy().reshape(-1).astype("f4") for output in answer.loss_fn_outputs]
        if [len(numbers) for numbers in found] != [len(sequence) for sequence in sequences]:
            lengths = [[len(each) for each in arrays][:4] for arrays in (found, sequences)]
            raise Refused(f"the server's answer to `{call}` has {lengths[0]}... numbers where {lengths[1]}... were asked for")
        return found

    def step(self, client, batches, adam):
        """One step of AdamW on linear losses: `batches` are sequences, the inputs of each, the loss and its settings. Everything is sent before the
        first answer is waited for. The answer: the gradient's norm as the server reports it, and whether all log-probabilities are numbers."""
        data = [([self.datum(sequence, **own) for sequence, own in zip(all, inputs)], loss, config) for all, inputs, loss, config in batches]
        types = self.sdk.types

        def send():
            sent = [client.forward_backward(datums, loss, config) for datums, loss, config in data]
            made = client.optim_step(types.AdamParams(**adam))
            return [future.result() for future in sent], made.result()

        answers, made = self.calls("forward_backward and optim_step", send)
        finite = all(numpy.isfinite(numbers).all() for (all_of, *_), answer in zip(batches, answers) for numbers in self.logprobs("forward_backward", all_of, answer))
        return norm(made.metrics or {}), finite

    # Weights.

    def save(self, client):
        """Where the weights and the optimiser lie from now on."""
        name = self.name()
        return self.calls("save_state", lambda: client.save_state(name)).path

    def sampler(self, client):
        """Where the weights lie from now on for generating."""
        name = self.name()
        return self.calls("save_weights_for_sampler", lambda: client.save_weights_for_sampler(name)).path

    def archive(self, path):
        """The files of saved weights, by name."""
        rest = self.calls("create_rest_client", self.service.create_rest_client)
        try:
            address = self.calls("get_checkpoint_archive_url", lambda: rest.get_checkpoint_archive_url_from_tinker_path(path)).url
            key = None
        except Refused:
            # The SDK refuses the paths that some servers give.
            run, *_, name = path.removeprefix("tinker://").split("/")
            address, key = f"{self.url}/api/v1/training_runs/{run}/checkpoints/{name}/archive", self.key
        return self.calls("download", lambda: download(address, key))

    # Generating. By several threads at once, so each call has limits of its own.

    def generator(self, path, calls):
        return calls("create_sampling_client", lambda: self.service.create_sampling_client(model_path=path))

    def sample(self, client, prompt, asked, calls):
        """Sampled tokens, their log-probabilities at temperature 1, and whether the limit of tokens ended them."""
        types = self.sdk.types
        made = calls("sample", lambda: client.sample(types.ModelInput.from_ints(prompt), 1, types.SamplingParams(**asked)))
        found = made.sequences[0]
        tokens, logprobs = list(found.tokens), [float(number) for number in found.logprobs or []]
        if len(logprobs) != len(tokens) or not all(number == number and number > -1e9 for number in logprobs):
            raise Refused(f"the server sampled {len(tokens)} tokens with {len(logprobs)} log-probabilities, or with some that are no numbers")
        return [int(token) for token in tokens], logprobs, found.stop_reason == "length"

    def weigh(self, client, prompt, calls):
        """The log-probability of each token of a prompt from the second on."""
        if len(prompt) < 2:
            return []
        found = list(calls("compute_logprobs", lambda: client.compute_logprobs(self.sdk.types.ModelInput.from_ints(prompt))))
        # Some begin with nothing for the first token, as the SDK's types have it, and some with the second.
        found = found[len(found) - len(prompt) + 1 :] if len(found) >= len(prompt) - 1 else found
        if len(found) != len(prompt) - 1 or not all(number is not None and number == number for number in found):
            raise Refused(f"the server weighed {len(found)} of the {len(prompt) - 1} tokens of a prompt")
        return [float(number) for number in found]


def norm(metrics):
    """The norm of the gradient, by what servers call it; None where they say none."""
    return next((float(number) for name, number in sorted(metrics.items()) if "grad_norm" in name or "grad_l2" in name), None)
