"""One server that flow starts, vLLM or what has a server of Tinker's protocol generate:

    python -m flow_train.servers MODEL --port N [--lora RANK] [--dtype bf16|f32] [--memory 0.4] [--length TOKENS] [--sleep] [-- ARGUMENTS...]
    python -m flow_train.servers MODEL --port N --tinker URL

It ends with flow: standard input is a pipe from it, and at its end, however flow ended, the server is ended with all its processes. A server that dies after it
has answered is started again; one that dies before ends this program, with the server's last lines.
"""
import argparse, http.client, importlib.metadata, os, signal, subprocess, sys, threading, time, urllib.request

# CUDA graphs for decoding alone: whole graphs without compilation have answered wrongly.
GRAPHS = '{"mode":0,"cudagraph_mode":"FULL_DECODE_ONLY"}'


def command(a):
    if a.tinker:
        return [sys.executable, "-m", "flow_tinker.front", "--url", a.tinker, "--listen", f"127.0.0.1:{a.port}", "--with-input"]
    words = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", a.model, "--host", "127.0.0.1", "--port", str(a.port)]
    words += ["--dtype", {"bf16": "bfloat16", "f32": "float32"}[a.dtype]]
    if a.length:
        words += ["--max-model-len", str(a.length)]
    if a.lora:
        words += ["--enable-lora", "--max-lora-rank", str(rank(a.lora)), "--max-loras", "4"]
    if a.sleep:
        words += ["--enable-sleep-mode"]
    if on_cpu():
        # Large parts of a prompt: a request with a seed whose prompt is read in several ends such a build.
        words += ["--enforce-eager", "--max-num-batched-tokens", "8192", "--max-num-seqs", "16"]
    else:
        words += ["--gpu-memory-utilization", str(a.memory), "-cc", GRAPHS]
    return words + a.arguments


def rank(wanted):
    """The smallest rank that vLLM has room for and that holds this one."""
    return next((known for known in (8, 16, 32, 64, 128, 256, 320, 512) if known >= wanted), wanted)


def on_cpu():
    return importlib.metadata.version("vllm").endswith("+cpu")


def environment():
    own = {
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
    }
    if on_cpu():
        own |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1"}
    return {**own, **os.environ, "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}


class Server:
    """The server's process, in a group of its own."""

    def __init__(self, a):
        self.port = a.port
        # What has a hosted server generate ends at the end of its input, also where this program is killed.
        stdin = subprocess.PIPE if a.tinker else subprocess.DEVNULL
        self.process = subprocess.Popen(command(a), env=os.environ if a.tinker else environment(), stdin=stdin, stdout=2, start_new_session=True)

    def healthy(self):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2).status == 200
        except (OSError, http.client.HTTPException):
            return False

    def end(self):
        """Ends all of it: its engine is a process of its own, and outlives a server that is killed."""
        for number, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 5)):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                return
            try:
                self.process.wait(patience)
            except subprocess.TimeoutExpired:
                continue


def main():
    parser = argparse.ArgumentParser(prog="python -m flow_train.servers")
    parser.add_argument("model")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--lora", type=int)
    parser.add_argument("--dtype", choices=["bf16", "f32"], default="bf16")
    parser.add_argument("--memory", type=float, default=0.4)
    parser.add_argument("--length", type=int)
    parser.add_argument("--sleep", action="store_true", help="it can give its GPU's memory away for a while")
    parser.add_argument("--tinker", metavar="URL")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    a = parser.parse_args(words[:cut])
    a.arguments = words[cut + 1 :]
    if a.sleep and on_cpu():
        parser.error("a vLLM for CPUs has no sleep mode: leave `sleep` out")
    over = threading.Event()

    def listen():
        while os.read(0, 1 << 12):
            pass
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    server, answered, pause = Server(a), False, 1
    try:
        while not over.wait(0.5):
            answered = answered or server.healthy()
            if server.process.poll() is None:
                continue
            status = server.process.returncode
            server.end()
            if not answered:
                print(f"flow_train.servers: the server ended with {status} before it answered", file=sys.stderr, flush=True)
                return 1
            print(f"flow_train.servers: the server at {a.port} ended with {status}; it is started again in {pause} s", file=sys.stderr, flush=True)
            if over.wait(pause):
                break
            server, pause = Server(a), min(60, 2 * pause)
    finally:
        server.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
