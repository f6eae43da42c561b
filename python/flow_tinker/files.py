"""An adapter's files as a server gives them, and as PEFT reads them."""
import io, json, tarfile, urllib.request
from urllib.parse import urlparse

import numpy

from .calls import Refused

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
MOST = 1 << 33
TYPES = {"F32": ("<f4", 4), "F16": ("<f2", 2), "BF16": ("<u2", 2)}


class Redirects(urllib.request.HTTPRedirectHandler):
    """The key goes to the server alone."""

    def redirect_request(self, request, *rest):
        new = super().redirect_request(request, *rest)
        if new and urlparse(new.full_url).netloc != urlparse(request.full_url).netloc:
            new.remove_header("X-api-key")
        return new


def download(address, key):
    """The files of an archive, by name."""
    request = urllib.request.Request(address, headers={"X-API-Key": key} if key else {})
    with urllib.request.build_opener(Redirects).open(request, timeout=60) as answer:
        data = answer.read(MOST)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = {member.name.rsplit("/", 1)[-1]: member for member in tar if member.isfile()}
        found = {name: tar.extractfile(members[name]).read() for name in (WEIGHTS, CONFIG) if name in members}
    if len(found) != 2:
        raise Refused(f"the server's archive has {sorted(members)}, and no {WEIGHTS} with its {CONFIG}")
    return found


def tensors(data):
    """The tensors of safetensors, by name; numbers of two bytes in bf16 are widened."""
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + size])
    found = {}
    for name, about in head.items():
        if name == "__metadata__":
            continue
        if about["dtype"] not in TYPES:
            raise Refused(f"{name} is in {about['dtype']}, which isn't read here")
        begin, end = about["data_offsets"]
        numbers = numpy.frombuffer(data[8 + size + begin : 8 + size + end], TYPES[about["dtype"]][0])
        if about["dtype"] == "BF16":
            numbers = (numbers.astype("<u4") << 16).view("<f4")
        found[name] = numbers
    return found


def mended(found, base, begun, place):
    """The files as PEFT reads them, with what was said of the adapter that flow began with, and `place`: where the server has the weights."""
    config = json.loads(found[CONFIG])
    own = tensors(found[WEIGHTS])
    broken = [name for name, numbers in own.items() if not numpy.isfinite(numbers).all()]
    if broken:
        raise Refused(f"the server's {broken[0]} has numbers that are none: this version is lost, and `flow resume` goes on from the last that was saved")
    if config.get("target_modules") is None:
        # PEFT would take its own.
        config["target_modules"] = sorted({name.split(".lora_")[0].rsplit(".", 1)[1] for name in own})
    config.update(begun)
    config.update(task_type="CAUSAL_LM", peft_type="LORA", base_model_name_or_path=base, flow_tinker=place)
    return {WEIGHTS: found[WEIGHTS], CONFIG: json.dumps(config, indent=2).encode()}


def described(folder):
    """The description of an adapter on disk."""
    with open(f"{folder}/{CONFIG}") as file:
        return json.load(file)


def untrained(folder):
    """Whether an adapter on disk changes nothing yet."""
    with open(f"{folder}/{WEIGHTS}", "rb") as file:
        own = tensors(file.read())
    return not any(numbers.any() for name, numbers in own.items() if ".lora_B" in name)
