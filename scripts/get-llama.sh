#!/usr/bin/env bash
# Builds llama.cpp's server for this very processor, as its users have it, into .venv-llama: the peer of `BENCH_PEER=llama_peer.py`.
# The source is that which the sdist of llama-cpp-python brings. A wheel won't do: it is built for AVX2, so that it runs anywhere.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.3.36
[ -d .venv-llama ] || python3 -m venv .venv-llama
.venv-llama/bin/pip install -q --disable-pip-version-check cmake==4.1.3 ninja
.venv-llama/bin/pip download -q --disable-pip-version-check --no-deps --no-binary llama-cpp-python -d .venv-llama "llama-cpp-python==$version"
tar xzf ".venv-llama/llama_cpp_python-$version.tar.gz" -C .venv-llama
.venv-llama/bin/cmake -G Ninja -S ".venv-llama/llama_cpp_python-$version/vendor/llama.cpp" -B .venv-llama/build \
  -DCMAKE_MAKE_PROGRAM="$PWD/.venv-llama/bin/ninja" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF \
  -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_OPENSSL=OFF
.venv-llama/bin/cmake --build .venv-llama/build --target llama-server
.venv-llama/build/bin/llama-server --version
