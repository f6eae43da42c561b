"""Says what a server of Tinker's protocol is: how it reduces a linear loss and what it ignores. It needs the SDK `tinker` and nothing of flow.

    python -m flow_tinker.probe http://127.0.0.1:8000 [--model NAME] [--rank 8] [--vocabulary 256]
"""
import argparse, json, os, sys

from . import files
from .calls import Calls, Refused
from .reduction import Measured
from .server import Server


def look(url, model, rank, vocabulary, timeout, say=print):
    server = Server(url, Calls(timeout))
    models = server.models()
    say(f"{url}, by the SDK {server.version()}: {', '.join(f'{name} (context {context})' if context else name for name, context in models.items())}")
    if not model and len(models) != 1:
        raise Refused("it has several models: name one with --model")
    client = server.create(model or next(iter(models)), rank, 7)
    measured = Measured(server, client, vocabulary)
    for line in measured.report:
        say(f"  {line}")
    meaning = {"sum": "`cross_entropy` with weights of both signs is their sum", "mean": "`cross_entropy` is no sum; `cispo` clipped to a ratio of 1, times positions and sequences, is a sum"}
    say(f"reduction: {meaning.get(measured.encoding, 'its answers fit neither a sum nor a mean: flow trains nothing there')}")
    if measured.encoding == "mean":
        say("`forward_backward_custom` of the SDK sends signed weights by `cross_entropy`: its gradients are false here")
    if measured.encoding:
        say(f"grad_clip_norm: {'followed' if measured.clips() else 'ignored without a word'}")
        other = server.create(model or next(iter(models)), rank, 8)
        shrinks = measured.shrinks_others(other)
        say(f"weight_decay: a client's step {'SHRINKS THE ADAPTERS OF ALL CLIENTS' if shrinks else 'leaves other clients as they are'}")
        server.release(other)
    path = server.sampler(client)
    found = server.archive(path)
    config = json.loads(found[files.CONFIG])
    own = files.tensors(found[files.WEIGHTS])
    said = ", ".join(f"{field} {config.get(field)}" for field in ("r", "lora_alpha", "lora_dropout", "target_modules"))
    say(f"adapter: {said}; layers {sorted({name.split('.lora_')[0].rsplit('.', 1)[1] for name in own})}, {sum(n.size for n in own.values())} numbers")
    server.release(client)
    return measured.encoding


def main():
    parser = argparse.ArgumentParser(prog="python -m flow_tinker.probe", description="Says what a server of Tinker's protocol is")
    parser.add_argument("url")
    parser.add_argument("--model", help="the name of a model, where the server has several")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=256, help="ids below this are sent")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds that all of it may take")
    arguments = parser.parse_args()
    try:
        way = look(arguments.url, arguments.model, arguments.rank, arguments.vocabulary, arguments.timeout)
    except Refused as why:
        way = print(f"flow_tinker.probe: {why}", file=sys.stderr)
    sys.stdout.flush()
    os._exit(0 if way else 1)


if __name__ == "__main__":
    main()
