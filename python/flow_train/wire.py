"""Messages between flow and a trainer. A message is a line of JSON and, where it says `bytes`, so many bytes behind it. No pickle: what
arrives is numbers and text."""
import json, socket

LONGEST_LINE = 1 << 27
LONGEST_PAYLOAD = 1 << 32


class Wire:
    """The connection to flow, on rank 0."""

    def __init__(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = connection.makefile("rwb", buffering=1 << 16)

    def read(self):
        """The next message and its payload; None at the end."""
        line = self.stream.readline(LONGEST_LINE)
        if not line.endswith(b"\n"):
            if len(line) == LONGEST_LINE:
                raise ValueError(f"a message's line has more than {LONGEST_LINE} bytes")
            return None
        message = json.loads(line)
        size = message.get("bytes", 0)
        if not 0 <= size <= LONGEST_PAYLOAD:
            raise ValueError(f"a payload of {size} bytes")
        payload = self.stream.read(size)
        return (message, payload) if len(payload) == size else None

    def write(self, message, payload=b""):
        if payload:
            message = {**message, "bytes": len(payload)}
        self.stream.write(json.dumps(message).encode() + b"\n" + payload)
        self.stream.flush()


def address(text):
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def connect(to, secret):
    """To flow, which started this trainer. Whoever connects gives the secret first."""
    connection = socket.create_connection(address(to), timeout=60)
    connection.settimeout(None)
    wire = Wire(connection)
    wire.write({"secret": secret})
    return wire


def accept(server, secret):
    """Waits for flow. A connection without the secret is closed."""
    while True:
        connection, _ = server.accept()
        connection.settimeout(60)
        try:
            wire = Wire(connection)
            message = wire.read()
            if message and message[0].get("secret", "") == secret:
                connection.settimeout(None)
                return wire
        except (OSError, ValueError):
            pass
        connection.close()
