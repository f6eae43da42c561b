"""A trainer whose weights lie on a server of Tinker's protocol.

    python -m flow_tinker --url http://127.0.0.1:8000 --listen 127.0.0.1:29400      # flow connects: `train: { address: "127.0.0.1:29400" }`

flow starts it for `train: { tinker: URL }` itself, with `--connect`. The environment variable FLOW_TRAIN_SECRET holds the secret that whoever
connects must give, TINKER_API_KEY the server's key.
"""
import argparse, os, socket, sys

from flow_train import PROTOCOL
from flow_train.wire import accept, address, connect

from . import VERSION
from .calls import Calls, Refused, said
from .server import Server
from .trainer import Trainer


def main():
    parser = argparse.ArgumentParser(prog="python -m flow_tinker", description="A trainer for flow, by a server of Tinker's protocol")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--connect", metavar="HOST:PORT", help="where flow waits for this trainer")
    where.add_argument("--listen", metavar="HOST:PORT", help="where this trainer waits for flow")
    parser.add_argument("--url", required=True, help="where the server is")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds that one answer may take")
    arguments = parser.parse_args()
    secret = os.environ.get("FLOW_TRAIN_SECRET", "")
    server = socket.create_server(address(arguments.listen)) if arguments.listen else None
    while True:
        wire = connect(arguments.connect, secret) if arguments.connect else accept(server, secret)
        ended = serve(wire, arguments)
        if arguments.connect or ended:
            # Without waiting for threads of the SDK, which may wait for ever.
            sys.stdout.flush()
            os._exit(1 if ended else 0)


def serve(wire, arguments):
    """Answers flow until it is gone, or gives why it can't go on."""
    calls, trainer = Calls(arguments.timeout), None
    while (message := wire.read()) is not None:
        calls.begin()
        try:
            if message[0]["request"] == "hello":
                trainer = trainer or Trainer(Server(arguments.url, calls))
                answer = ({"protocol": PROTOCOL, "trainer": f"flow_tinker {VERSION}, tinker {trainer.server.version()}, {arguments.url}", "ranks": 1, "device": "server"}, b"")
            else:
                answer = trainer.answer(*message)
        except Exception as error:
            why = str(error) if isinstance(error, Refused) else said(error)
            if arguments.listen:
                # Else flow says it.
                print(f"flow_tinker: {why}", file=sys.stderr, flush=True)
            wire.write({"error": why})
            return why
        wire.write(*answer)
    if trainer:
        calls.seconds = 5.0
        calls.begin()
        trainer.close()
    return None


if __name__ == "__main__":
    main()
