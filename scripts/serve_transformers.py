"""Serves a model as vLLM would, in as much as `serve` of a pipeline asks for it, by transformers and PEFT: to try a pipeline where vLLM doesn't run.

    make .venv-parity/made-from
    .venv-parity/bin/python scripts/serve_transformers.py models/smollm2-135m-instruct --port 8000
    flow run pipelines/smollm2-minesweeper.yaml --set 'models.actor.serve={ openai: "http://127.0.0.1:8000/v1" }'

It answers one question at a time: `completions` with a prompt of tokens (log-probabilities at temperature 1, of what is written or of the prompt),
`load_lora_adapter` and `unload_lora_adapter`. It belongs on this machine: it asks for no key and reads whatever folder it is told.
"""

import argparse
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

os.environ.setdefault("TQDM_DISABLE", "1")

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM


class Refused(Exception):
    """A question that has no answer: an HTTP status, and why."""


class Machine:
    def __init__(self, path, dtype):
        self.base = AutoModelForCausalLM.from_pretrained(path, dtype=dtype).eval()
        self.adapted = None
        self.names = set()
        self.lock = threading.Lock()

    def load_lora_adapter(self, said):
        name, path = said["lora_name"], said["lora_path"]
        if name in self.names:
            raise Refused(400, f"The lora adapter '{name}' has already been loaded.")
        if not (Path(path) / "adapter_config.json").exists():
            raise Refused(404, f"Loading lora {name} failed: No adapter found for {path}")
        if self.adapted is None:
            self.adapted = PeftModel.from_pretrained(self.base, path, adapter_name=name).eval()
        else:
            self.adapted.load_adapter(path, adapter_name=name)
        self.names.add(name)
        print("loaded", name, flush=True)
        return f"Success: LoRA adapter '{name}' added successfully."

    def unload_lora_adapter(self, said):
        name = said["lora_name"]
        if name not in self.names:
            raise Refused(404, f"The lora adapter '{name}' cannot be found.")
        self.names.remove(name)
        if self.names:
            self.adapted.delete_adapter(name)
        else:
            self.base, self.adapted = self.adapted.unload(), None
        print("unloaded", name, flush=True)
        return f"Success: LoRA adapter '{name}' removed successfully."

    def completions(self, said):
        if said["model"] not in self.names:
            raise Refused(404, f"The model `{said['model']}` does not exist.")
        self.adapted.set_adapter(said["model"])
        prompt = torch.tensor([said["prompt"]])
        choice = self.likely(prompt) if said.get("prompt_logprobs") is not None else self.written(prompt, said)
        return {"object": "text_completion", "model": said["model"], "choices": [{"index": 0, "text": "", **choice}]}

    def likely(self, prompt):
        logprobs = self.adapted(prompt).logits[0, :-1].log_softmax(-1)
        own = logprobs.gather(1, prompt[0, 1:, None])[:, 0].tolist()
        told = [{str(token): {"logprob": logprob}} for token, logprob in zip(prompt[0, 1:].tolist(), own)]
        return {"finish_reason": "length", "prompt_logprobs": [None, *told]}

    def written(self, prompt, said):
        draw = torch.Generator().manual_seed(said.get("seed", 0))
        tokens, logprobs, past, read, finish = [], [], None, prompt, "length"
        while len(tokens) < said["max_tokens"]:
            made = self.adapted(read, past_key_values=past, use_cache=True, logits_to_keep=1)
            past, logits = made.past_key_values, made.logits[0, -1].float()
            token = self.drawn(logits, said, draw)
            tokens.append(token)
            logprobs.append(float(logits.log_softmax(-1)[token]))
            if token in said.get("stop_token_ids", []):
                finish = "stop"
                break
            read = torch.tensor([[token]])
        names = [f"token_id:{token}" for token in tokens]
        return {"finish_reason": finish, "token_ids": tokens, "logprobs": {"tokens": names, "token_logprobs": logprobs}}

    def drawn(self, logits, said, draw):
        if said["temperature"] == 0:
            return int(logits.argmax())
        logits, order = (logits / said["temperature"]).sort(descending=True, stable=True)
        if said.get("top_k", -1) > 0:
            logits = logits[: said["top_k"]]
        shares = logits.softmax(-1)
        # The smallest set that has so much of the probability: a token is in it if those before it have less.
        shares = shares[shares.cumsum(-1) - shares < said.get("top_p", 1.0)]
        return int(order[torch.multinomial(shares, 1, generator=draw)])


def handler(machine):
    verbs = {f"/v1/{verb}": getattr(machine, verb) for verb in ["completions", "load_lora_adapter", "unload_lora_adapter"]}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            said = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, answer = 200, None
            try:
                verb = verbs.get(self.path)
                if verb is None:
                    raise Refused(404, "Not Found")
                with machine.lock, torch.no_grad():
                    answer = verb(said)
            except Refused as refused:
                status, answer = refused.args[0], {"error": {"message": refused.args[1]}}
            except (KeyError, ValueError, RuntimeError) as error:
                status, answer = 400, {"error": {"message": repr(error)}}
            body = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a Hugging Face folder: the one that the pipeline loads")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    given = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    machine = Machine(given.model, getattr(torch, given.dtype))
    server = ThreadingHTTPServer(("127.0.0.1", given.port), handler(machine))
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
