"""Generates by a server of Tinker's protocol, by the routes that flow knows of vLLM: tokens in, sampled tokens and their log-probabilities out.

    python -m flow_tinker.front --url http://127.0.0.1:8000 --listen 127.0.0.1:8100      # serve: { vllm: ["http://127.0.0.1:8100"] }

flow has a version loaded by its folder; `adapter_config.json` in it says where the server has the same weights (`flow_tinker`). The
log-probabilities are those at temperature 1, whatever it samples at.
"""
import argparse, ipaddress, json, os, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from . import VERSION, files
from .calls import Calls, Refused
from .server import Server

NEUTRAL = {"min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
MOST = 1 << 26


class Bad(Exception):
    """What is wrong with a request."""


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 600

    def say(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        path = self.path.rstrip("/")
        if path == "/health":
            return self.say(200, {})
        if path == "/version":
            return self.say(200, {"version": f"flow_tinker {VERSION}, tinker {self.server.tinker.version()}"})
        if path == "/v1/models":
            return self.say(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in sorted(self.server.loaded)]})
        return self.say(404, {"error": "Not Found"})

    def do_POST(self):
        size = self.headers.get("content-length", "")
        if not size.isdecimal() or int(size) > MOST:
            self.close_connection = True
            return self.say(413, {"error": f"a body of at most {MOST} bytes with its content-length"})
        data, calls = self.rfile.read(int(size)), Calls(self.server.seconds)
        routes = {"/v1/completions": self.completions, "/v1/load_lora_adapter": self.load, "/v1/unload_lora_adapter": self.unload}
        try:
            body = json.loads(data)
            if self.path not in routes or not isinstance(body, dict):
                return self.say(404, {"error": "Not Found"})
            return self.say(200, routes[self.path](body, calls))
        except (Bad, json.JSONDecodeError) as why:
            return self.say(400, {"error": str(why)})
        except KeyError as name:
            return self.say(404, {"error": f"The model {name} does not exist."})
        except Refused as why:
            return self.say(503, {"error": str(why)})

    def load(self, body, calls):
        name, folder = body.get("lora_name"), body.get("lora_path")
        if not isinstance(name, str) or not isinstance(folder, str):
            raise Bad("lora_name and lora_path are missing")
        try:
            with open(os.path.join(folder, files.CONFIG)) as file:
                place = json.load(file).get("flow_tinker")
        except (OSError, ValueError) as why:
            raise Bad(f"{folder}: {why}") from None
        if not place or place["server"] != self.server.tinker.url:
            raise Bad(f"{folder} isn't of an adapter that {self.server.tinker.url} has: {place and place['server']}")
        try:
            self.server.loaded[name] = self.server.tinker.generator(place["weights"], calls)
        except Refused as why:
            raise Refused(f"the weights {place['weights']} of {folder}: {why}") from None
        return {}

    def unload(self, body, _):
        self.server.loaded.pop(body.get("lora_name"), None)
        return {}

    def completions(self, body, calls):
        client, prompt = self.server.loaded[body.get("model")], body.get("prompt")
        if not isinstance(prompt, list) or not prompt or not all(isinstance(token, int) and token >= 0 for token in prompt):
            raise Bad("a prompt is a list of tokens")
        if body.get("prompt_logprobs") is not None:
            weighed = self.server.tinker.weigh(client, prompt, calls)
            return {"choices": [{"prompt_logprobs": [None] + [{str(token): {"logprob": number}} for token, number in zip(prompt[1:], weighed)]}]}
        for key, neutral in NEUTRAL.items():
            if body.get(key, neutral) != neutral:
                raise Bad(f"`{key}`, which a server of Tinker's protocol doesn't have")
        if body.get("stop"):
            raise Bad("`stop` with texts: such a server ends an answer by tokens")
        asked = {key: body[key] for key in ("max_tokens", "temperature", "top_p", "top_k", "seed") if body.get(key) is not None}
        tokens, logprobs, cut = self.server.tinker.sample(client, prompt, {**asked, "stop": body.get("stop_token_ids") or None}, calls)
        record = {"tokens": [f"token_id:{token}" for token in tokens], "token_logprobs": logprobs}
        return {"choices": [{"finish_reason": "length" if cut else "stop", "stop_reason": None, "token_ids": tokens, "logprobs": record}]}

    def log_message(self, *_):
        pass


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):
        """Whoever hung up needs no answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, address)


def main():
    parser = argparse.ArgumentParser(prog="python -m flow_tinker.front", description="Generates for flow by a server of Tinker's protocol")
    parser.add_argument("--url", required=True, help="where the server is")
    parser.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:8100")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds that one answer may take")
    parser.add_argument("--with-input", action="store_true", help="end at the end of the standard input")
    arguments = parser.parse_args()
    if arguments.with_input:
        threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
    host, _, port = arguments.listen.rpartition(":")
    host = host.strip("[]")
    if not (host == "localhost" or ipaddress.ip_address(host).is_loopback):
        parser.error("whoever reaches it generates with your key: let it listen on this machine alone, as 127.0.0.1")
    try:
        server = Server(arguments.url, Calls(arguments.timeout))
        server.models()
    except Refused as why:
        print(f"flow_tinker.front: {why}", file=sys.stderr, flush=True)
        os._exit(1)
    front = Quiet((host, int(port)), Front)
    front.tinker, front.seconds, front.loaded = server, arguments.timeout, {}
    print(f"flow_tinker.front: http://{host}:{front.server_port}, by {arguments.url}", flush=True)
    try:
        front.serve_forever()
    except KeyboardInterrupt:
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
