"""A server of Tinker's protocol on loopback for the SDK itself: it sums, as the SDK's documentation says. It needs the SDK for its messages.

    python tinker_fake.py FOLDER [REDUCTION]      # prints its address; FOLDER/fault says what goes wrong, as `forward 3 late`
"""
import json, pathlib, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy
from tinker.proto import tinker_public_pb2 as pb

from tinker_machine import Machine

KINDS = {"forward": "application/x-protobuf", "sample": "application/x-protobuf"}
DTYPES = {pb.DTYPE_FLOAT32: "<f4", pb.DTYPE_INT64: "<i8"}


class Fake(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def say(self, body, status=200, kind="application/json", **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path.endswith("/archive"):
            *_, run, _, name, _ = self.path.split("/")
            return self.say(self.server.machine.archive(f"tinker://{run}/{name}"), kind="application/gzip")
        return self.say({"supported_models": [{"model_name": "llama-tied", "max_context_length": 128}]})

    def do_POST(self):
        data, own = self.rfile.read(int(self.headers["content-length"])), self.server
        name = self.path.removeprefix("/api/v1/")
        if name == "forward_backward":
            body = pb.ForwardBackwardRequest()
            body.ParseFromString(data)
            name = "forward" if body.forward_only else "backward"
        else:
            body = json.loads(data)
        fault = own.fault(name)
        if fault == "429":
            return self.say({"detail": "too many requests"}, 429, retry_after="1")
        plain = {"client/config": {"pjwt_auth_enabled": False}, "client/dynamic_config": {}, "create_session": {"session_id": "s"}, "session_heartbeat": {}, "telemetry": {"status": "accepted"}}
        if name in plain:
            return self.say({"type": name, **plain[name]})
        if name == "retrieve_future":
            kind, answer = own.answers[body["request_id"]]
            if isinstance(answer, Exception):
                return self.say({"error": str(answer), "category": "user"})
            return self.say(answer, kind=KINDS.get(kind, "application/json"))
        if name == "weights_info":
            return self.say({"base_model": "llama-tied", "is_lora": True, "lora_rank": 8})
        if name == "create_sampling_session":
            own.samplers.append(body["model_path"])
            return self.say({"type": name, "sampling_session_id": str(len(own.samplers) - 1)})
        with own.lock:
            number = str(len(own.answers))
            if fault == "late":
                time.sleep(3600)
            try:
                own.answers[number] = (name if name in ("forward", "sample") else "forward" if name == "backward" else "sample" if name == "asample" else "", self.answer(name, body, fault))
            except (KeyError, ValueError, OSError) as error:
                own.answers[number] = ("", error)
        return self.say({"request_id": number, "model_id": "m"})

    def answer(self, name, body, fault):
        own, machine = self.server, self.server.machine
        if fault == "expired":
            machine.clients.clear()
        if name == "create_model":
            return {"type": name, "model_id": machine.create(body["lora_config"]["rank"], body["lora_config"].get("seed") or 0)}
        if name == "load_weights":
            state = machine.create(8, 0, machine.saved(body["path"]))
            machine.clients[body["model_id"]] = machine.clients.pop(state)
            return {"type": name, "path": body["path"]}
        if name == "unload_model":
            machine.clients.pop(body["model_id"], None)
            return {"type": name, "model_id": body["model_id"]}
        if name in ("forward", "backward"):
            rows = []
            for datum in body.data:
                inputs = {key: numpy.frombuffer(tensor.dense, DTYPES[tensor.dtype]) for key, tensor in datum.loss_fn_inputs.items()}
                rows.append((numpy.frombuffer(datum.model_input[0].encoded_text.tokens, "<i4"), inputs.pop("target_tokens"), inputs))
            found = machine.forward(body.model_id, rows) if name == "forward" else machine.forward_backward(body.model_id, rows, body.loss_fn, dict(body.loss_fn_config))
            return outputs([numbers * numpy.nan for numbers in found] if fault == "nan" else found)
        if name == "optim_step":
            adam = body["adam_params"]
            norm = machine.optim_step(body["model_id"], adam["learning_rate"], adam["beta1"], adam["beta2"], adam["eps"], adam["weight_decay"], adam["grad_clip_norm"])
            return {"metrics": {"unclipped_grad_l2:mean": norm}}
        if name in ("save_weights", "save_weights_for_sampler"):
            return {"type": name, "path": machine.save(body["model_id"], body["path"])}
        if name == "asample":
            prompt, asked = body["prompt"]["chunks"][0]["tokens"], body["sampling_params"]
            path, message = own.samplers[int(body["sampling_session_id"])], pb.SampleResponse()
            tokens, logprobs, why = machine.sample(path, prompt, asked["max_tokens"], asked.get("temperature", 1.0), asked.get("seed"), asked.get("stop") or [])
            one = message.sequences.add()
            one.tokens, one.logprobs = numpy.array(tokens, "<i4").tobytes(), numpy.array(logprobs, "<f4").tobytes()
            one.stop_reason = pb.STOP_REASON_STOP if why == "stop" else pb.STOP_REASON_LENGTH
            if body.get("prompt_logprobs"):
                message.prompt_logprobs = numpy.array([numpy.nan, *machine.weigh(path, prompt)[1:]], "<f4").tobytes()
            return message.SerializeToString()
        raise ValueError(f"no route {name}")

    def log_message(self, *_):
        pass


def outputs(arrays):
    message = pb.ForwardBackwardOutput(loss_fn_output_type="x")
    record = message.loss_fn_outputs.add()
    record.num_datums = len(arrays)
    tensor = record.fields["logprobs"]
    tensor.dtype, tensor.data = pb.DTYPE_FLOAT32, b"".join(numbers.astype("<f4").tobytes() for numbers in arrays)
    tensor.offsets = numpy.cumsum([0] + [4 * len(numbers) for numbers in arrays]).astype("<i8").tobytes()
    return message.SerializeToString()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder, reduction="sum", port=0):
        super().__init__(("127.0.0.1", port), Fake)
        self.folder, self.machine = pathlib.Path(folder), Machine(folder, reduction)
        self.answers, self.samplers, self.lock, self.counts = {}, [], threading.Lock(), {}

    def fault(self, name):
        path = self.folder / "fault"
        if not path.exists():
            self.counts.clear()
            return None
        call, number, kind = path.read_text().split()
        self.counts[name] = self.counts.get(name, 0) + 1
        if call != name or self.counts[name] != int(number):
            return None
        path.unlink()
        return kind


if __name__ == "__main__":
    server = Server(sys.argv[1], *sys.argv[2:3])
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
