"""llama.cpp's server, built for this very CPU, in place of transformers in `cargo bench --bench model`:

    scripts/get-llama.sh
    BENCH_PEER=llama_peer.py BENCH_PYTHON=.venv-llama/bin/python BENCH_CLOCK=cpu cargo bench --bench model -- prefill decode

All prompts of a case are asked at once, over HTTP; the CPU's seconds are those of the server. LLAMA_SERVER names another server than that of
.venv-llama. The server reads LLAMA_MODEL, a GGUF file; another quantisation of one is made by

    .venv-parity/bin/python benches/llama_peer.py FROM.gguf Q8_0 TO.gguf

Q4_1 is the kind of the file that `flow model fetch` brings, Q8_0 that with the precision of `base: int8`.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

SERVER = os.environ.get("LLAMA_SERVER") or str(Path(__file__).resolve().parent.parent / ".venv-llama/build/bin/llama-server")


def requantise(source, kind, target):
    """A copy of a GGUF file whose matrices are stored as `kind` (F16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1), made from what its own come to in f32."""
    import gguf

    reader = gguf.GGUFReader(source)
    wanted = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    own = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")
    for name, field in reader.fields.items():
        if not name.startswith(own):
            writer.add_key_value(name, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if values.ndim > 1:
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, wanted), raw_dtype=wanted)
        else:
            writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Server:
    """A server with room for `rows` conversations of `tokens` tokens, and nothing that it keeps from one to the next."""

    def __init__(self, path, threads, rows, tokens, tells=False):
        port = random.randrange(20000, 60000)
        self.address = f"http://127.0.0.1:{port}"
        asked = {"-m": path, "-c": rows * tokens, "-np": rows, "-t": threads, "-tb": threads, "--host": "127.0.0.1", "--port": port}
        if tells:
            asked["-lv"] = 4  # below it the server doesn't say what it was built with
        self.log = tempfile.TemporaryFile("w+")
        command = [SERVER, *(str(word) for pair in asked.items() for word in pair), "--no-warmup"]
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        while not self.ready():
            if self.child.poll() is not None:
                sys.exit(f"{SERVER} ended: {self.said()[-500:]}")
            time.sleep(0.1)

    def ready(self):
        try:
            return urllib.request.urlopen(f"{self.address}/health", timeout=5).status == 200
        except OSError:
            return False

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def seconds(self):
        """Of the CPU, user's and system's, so far."""
        fields = open(f"/proc/{self.child.pid}/stat").read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """The most that it has had, in MB."""
        status = open(f"/proc/{self.child.pid}/status").read()
        return int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1024

    def close(self):
        self.child.kill()
        self.child.wait()


def native(said):
    """What the server says of the CPU; the benchmark ends if it was built for a lesser one."""
    info = next((line for line in said.splitlines() if "system_info" in line), "")
    flags = open("/proc/cpuinfo").read()
    for flag, name in (("avx2", "AVX2"), ("avx512f", "AVX512"), ("avx512_vnni", "AVX512_VNNI"), ("amx_int8", "AMX_INT8")):
        if f" {flag} " in flags and f"{name} = 1" not in info:
            sys.exit(f"this llama.cpp was built without the {name} of this CPU: scripts/get-llama.sh builds it natively ({info.strip()})")
    return info.partition("|")[2].strip()


def answer(address, prompt, tokens, said):
    body = {"prompt": prompt, "n_predict": tokens, "temperature": 3.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "ignore_eos": True, "cache_prompt": False}
    request = urllib.request.Request(f"{address}/completion", json.dumps(body).encode(), {"content-type": "application/json"})
    said.append(json.load(urllib.request.urlopen(request, timeout=3000))["timings"])


def main():
    if len(sys.argv) > 1:
        return requantise(*sys.argv[1:])
    path = os.environ.get("LLAMA_MODEL", "models/smollm2-135m-instruct/model.gguf")
    threads = int(os.environ.get("BENCH_THREADS", "2"))
    cpu = os.environ.get("BENCH_CLOCK") == "cpu"
    server, shape, most = Server(path, threads, 1, 64, tells=True), None, 0.0
    print("ready llama.cpp", path, native(server.said()), flush=True)
    for line in sys.stdin:
        name, *numbers = line.split()
        rows, tokens, written, _ = map(int, numbers)
        most = max(most, server.memory())
        if name == "memory":
            print(most, flush=True)
            continue
        if shape != (rows, tokens):
            server.close()
            server, shape = Server(path, threads, rows, tokens + written + 16), (rows, tokens)
        prompts = [[random.randrange(100, 49000) for _ in range(tokens)] for _ in range(rows)]
        clock = server.seconds if cpu else time.perf_counter
        said, start = [], clock()
        asking = [threading.Thread(target=answer, args=(server.address, prompt, written, said)) for prompt in prompts]
        [one.start() for one in asking]
        [one.join() for one in asking]
        took = clock() - start
        short = [told for told in said if (told["prompt_n"], told["predicted_n"]) != (tokens, written)]
        if short or len(said) < rows:
            sys.exit(f"{len(said)} of {rows} answers, of which {len(short)} are not {tokens} tokens read and {written} written: {short[:1]}")
        print(took, flush=True)
    server.close()


if __name__ == "__main__":
    main()
