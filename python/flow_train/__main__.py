"""One rank of a trainer.

    torchrun --nproc-per-node 8 -m flow_train --listen 127.0.0.1:29400      # flow connects: `train: { address: "127.0.0.1:29400" }`

flow starts the ranks of `train: { torchrun: 8 }` itself, with `--connect`. The environment variable FLOW_TRAIN_SECRET holds the secret that
whoever connects must give.
"""
import argparse, datetime, os, socket, sys, traceback

# What errors of communication say, by gloo and NCCL.
LOST = ("/gloo/", "NCCL", "by peer")


def main():
    parser = argparse.ArgumentParser(prog="python -m flow_train", description="A trainer for flow, started by torchrun")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--connect", metavar="HOST:PORT", help="where flow waits for this trainer")
    where.add_argument("--listen", metavar="HOST:PORT", help="where rank 0 waits for flow")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="cuda where there is one unless given")
    arguments = parser.parse_args()
    rank = int(os.environ.get("RANK", "0"))
    if "RANK" not in os.environ:
        parser.error("start it by torchrun, also for one rank: torchrun --nproc-per-node 1 -m flow_train ...")
    # A model is a folder: nothing is fetched from elsewhere.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # Before torch is imported, since that takes seconds in which flow waits for the port.
    server = None
    if rank == 0 and arguments.listen:
        from .wire import address

        server = socket.create_server(address(arguments.listen))
    try:
        serve(arguments, rank, server)
    except KeyboardInterrupt:
        pass
    except BaseException as error:
        traceback.print_exc()
        print(f"flow_train, rank {rank}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        # Without the clean-up of torch.distributed, which would wait for ranks that wait for this one.
        os._exit(1)


def serve(arguments, rank, server):
    import torch
    import torch.distributed as dist

    from transformers.utils import logging

    from . import PROTOCOL, VERSION
    from .broadcast import to_all
    from .trainer import Trainer
    from .wire import accept, connect

    logging.disable_progress_bar()
    kind = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(kind, int(os.environ.get("LOCAL_RANK", "0"))) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo")
    # Between two updates flow plays, however long that takes; a rank that dies is noticed at once by torchrun.
    waiting = dist.new_group(backend="gloo", timeout=datetime.timedelta(days=30))
    secret = os.environ.get("FLOW_TRAIN_SECRET", "")
    while True:
        wire = None
        if rank == 0:
            wire = connect(arguments.connect, secret) if arguments.connect else accept(server, secret)
        trainer = Trainer(device)
        while True:
            message = to_all(wire.read() if wire else None, waiting)
            if message is None:
                break
            try:
                if message[0]["request"] == "hello":
                    answer = ({"protocol": PROTOCOL, "trainer": f"flow_train {VERSION}, torch {torch.__version__}", "ranks": trainer.ranks, "device": kind}, b"")
                else:
                    answer = trainer.answer(*message)
            except BaseException as error:
                # A rank that another one has left alone isn't to blame: torchrun says which one ended.
                if wire and not (trainer.ranks > 1 and any(word in str(error) for word in LOST)):
                    wire.write({"error": f"rank {rank}: {type(error).__name__}: {error}"})
                raise
            if wire:
                wire.write(*answer)
        if arguments.connect:
            break
        del trainer  # flow is gone; another run may come
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
