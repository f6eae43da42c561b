"""Receives weights beside a generation server that shares no disk with flow, so that the server can load them. It needs nothing but Python.

    FLOW_RECEIVER_SECRET=... python -m flow_train.receiver --listen 10.0.0.1:8100 --folder /tmp/weights

flow is told of it by `serve: { vllm: ["http://10.0.0.1:8000"], receivers: ["http://10.0.0.1:8100"] }`. `PUT /NAME/FILE` writes a file of the weights NAME, if its
header `x-sha256` is its hash; `GET /NAME` says which files are there and where; `DELETE /NAME` removes them.
"""
import argparse, hashlib, hmac, ipaddress, json, os, pathlib, re, shutil, tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
PART = 1 << 20


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 600

    def names(self, count):
        """The parts of the path, if whoever asks may ask and these are so many names."""
        wanted = f"Bearer {self.server.secret}".encode() if self.server.secret else b""
        if not hmac.compare_digest(self.headers.get("authorization", "").encode("latin-1", "replace"), wanted):
            return self.say(401, {"error": "another secret than FLOW_RECEIVER_SECRET"})
        parts = self.path.strip("/").split("/")
        if len(parts) != count or not all(NAME.fullmatch(part) for part in parts):
            return self.say(404, {"error": f"no path of {count} plain names"})
        return parts

    def say(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        if status >= 400:
            # What was sent may not have been read.
            self.send_header("connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(text)

    def do_PUT(self):
        if not (parts := self.names(2)):
            return
        folder, left = self.server.folder / parts[0], self.headers.get("content-length", "")
        if not left.isdecimal():
            return self.say(411, {"error": "a file comes with its content-length"})
        path, left, coming, digest = folder / parts[1], int(left), None, hashlib.sha256()
        try:
            folder.mkdir(exist_ok=True)
            # Of its own, since two servers on this host may be sent the same file at once.
            handle, name = tempfile.mkstemp(prefix=".", dir=folder)
            coming = pathlib.Path(name)
            with open(handle, "wb") as file:
                while left:
                    part = self.rfile.read(min(left, PART))
                    if not part:
                        return
                    digest.update(part)
                    file.write(part)
                    left -= len(part)
            if digest.hexdigest() != self.headers.get("x-sha256"):
                return self.say(400, {"error": f"{parts[1]} isn't what its x-sha256 says"})
            coming.chmod(0o644)
            coming.replace(path)
            self.say(200, {})
        except OSError as error:
            self.say(507, {"error": f"{path}: {error.strerror}"})
        finally:
            if coming:
                coming.unlink(missing_ok=True)

    def do_GET(self):
        if parts := self.names(1):
            folder = self.server.folder / parts[0]
            there = {file.name: file.stat().st_size for file in folder.iterdir() if not file.name.startswith(".")} if folder.is_dir() else {}
            self.say(200, {"folder": str(folder), "files": there})

    def do_DELETE(self):
        if parts := self.names(1):
            shutil.rmtree(self.server.folder / parts[0], ignore_errors=True)
            self.say(200, {})

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(prog="python -m flow_train.receiver", description="Receives weights for a generation server on this host")
    parser.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:8100")
    parser.add_argument("--folder", required=True, help="where the weights lie, which the server can read")
    arguments = parser.parse_args()
    host, _, port = arguments.listen.rpartition(":")
    secret = os.environ.get("FLOW_RECEIVER_SECRET", "")
    if not secret.isascii():
        parser.error("FLOW_RECEIVER_SECRET has letters beyond ASCII, which a header can't carry")
    if not secret and not (host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback):
        parser.error("on an address that others reach it needs FLOW_RECEIVER_SECRET in its environment, and flow the same one")
    server = ThreadingHTTPServer((host.strip("[]"), int(port)), Receiver)
    server.secret, server.folder = secret, pathlib.Path(arguments.folder).absolute()
    server.folder.mkdir(parents=True, exist_ok=True)
    print(f"flow_train.receiver: http://{host}:{server.server_port}, weights in {server.folder}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
