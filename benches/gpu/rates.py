#!/usr/bin/env python3
"""C: tokens a second through `serve`, and by a bare client that asks the same vLLM for the same prompts and lengths, pair by pair.

    python benches/gpu/rates.py --model /tmp/models/smollm2-hf --in-flight 64,256 --tokens 256
    python benches/gpu/rates.py --shape tiny --in-flight 4 --tokens 16            # CPUs: to see that it works

An iteration has twice as many answers as are in flight, and the first one isn't counted. The client begins with an empty prefix cache; flow's has the words
that all boards share. Nothing trains: the model's own weights answer.
"""
import argparse, json, pathlib, statistics, subprocess, tempfile

import halves


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--shape", default="tiny")
    parser.add_argument("--in-flight", default="64,256")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--memory", default="0.6")
    a = parser.parse_args()
    home = pathlib.Path(tempfile.mkdtemp())
    model = a.model or halves.model(home, a.shape, 4096)
    flights = [int(flight) for flight in a.in_flight.split(",")]
    with halves.Vllm(model, "--memory", a.memory, "--length", str(2048), "--", "--max-num-seqs", str(max(flights))) as server:
        for flight in flights:
            compared(server, flight, a, model, home / str(flight))


def compared(server, flight, a, model, out):
    values = dict(NAME="rates", ITERATIONS=a.iterations, MODEL=model, SERVERS=f'["{server.address}"]', PARALLEL=flight, BATCH=max(1, flight // 2), TOKENS=a.tokens)
    path = halves.pipeline(out.with_suffix(".yaml"), None, **values)
    server.post("/reset_prefix_cache")
    done = halves.run("run", path, "--out", out)
    if done.returncode:
        return print(f"{flight} in flight: flow ended with {done.returncode}\n{done.stderr[-2000:]}", flush=True)
    figures, ratios = halves.figures(out), []
    # The first iteration finds everything cold.
    for iteration in range(1, a.iterations):
        rows = halves.ask(out, f"select prompt_tokens, response_tokens from rollout where iteration = {iteration} order by task, sample")
        asked = out.with_suffix(".json")
        asked.write_text(json.dumps({"servers": [server.address], "adapter": str(model), "rows": rows, "parallel": flight}))
        server.post("/reset_prefix_cache")
        client = subprocess.run([halves.VLLM, str(halves.ROOT / "benches/servers_client.py"), asked], capture_output=True, text=True)
        if client.returncode:
            return print(f"{flight} in flight: the client failed\n{client.stderr[-1000:]}", flush=True)
        bare, written = json.loads(client.stdout), sum(len(row["response_tokens"]) for row in rows)
        seconds = figures["rollout", "seconds", iteration] - figures.get(("rollout", "adapter_seconds", iteration), 0)
        own, peer = written / seconds, bare["tokens"] / bare["seconds"]
        ratios.append(own / peer)
        print(f"{flight} in flight, iteration {iteration}: {len(rows)} answers, {written} tokens; flow {own:.0f} tokens/s, client {peer:.0f}, ratio {own / peer:.2f}", flush=True)
    print(f"{flight} in flight: ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); wanted 0.95", flush=True)


if __name__ == "__main__":
    main()
