#!/usr/bin/env bash
# Compiles libflow_torch.so for each release of PyTorch in torch-releases.txt, into FOLDER/RELEASE: scripts/torch-libraries.sh FOLDER.
# The release that the program itself is built with isn't among them. Each needs 2 GB of disk for a while, and 500 MB of download.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1 cache=target/torch
mkdir -p $cache
while read -r requirement; do
  version=${requirement#torch==} version=${version%% *} release=${version%.*}
  made=$cache/$release.so key="$requirement $(cat scripts/torch-libraries.sh crates/torch/{build.rs,gone.h,more.cpp} Cargo.lock | sha256sum)"
  if [ "$(cat "$made.from" 2>/dev/null)" != "$key" ]; then
    echo "flow: compiling against PyTorch $version"
    rm -rf "$cache/$release" && mkdir -p "$cache/$release/wheels"
    echo "$requirement" > "$cache/$release/wanted.txt"
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 \
      --platform manylinux_2_28_x86_64 --require-hashes -r "$cache/$release/wanted.txt" -d "$cache/$release/wheels"
    (cd "$cache/$release" && python3 -m zipfile -e wheels/*.whl . && rm -rf wheels)
    # The CUDA libraries that libtorch_cpu asks for, and a libtorch that asks for no more, come from the release that flow is built with.
    cp .libtorch/torch/lib/libcu*.so.13 .libtorch/torch/lib/libtorch.so "$cache/$release/torch/lib/"
    LIBTORCH=$PWD/$cache/$release/torch cargo build -q --release -p flow-torch --target-dir "$cache/build"
    cp "$(ls -t $cache/build/release/build/flow-torch-*/out/libflow_torch.so | head -1)" "$made"
    rm -rf "${cache:?}/$release"
    echo "$key" > "$made.from"
  fi
  mkdir -p "$out/$release" && cp "$made" "$out/$release/libflow_torch.so"
done < scripts/torch-releases.txt
