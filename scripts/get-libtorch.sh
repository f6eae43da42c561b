#!/usr/bin/env bash
# Puts a CPU libtorch 2.11.0 (headers and libraries, about 500 MB) into .libtorch/torch, out of hash-pinned
# wheels. Needs python3 with pip (any 3.x: the wheel's tag is named, nothing is imported) and gcc.
set -euo pipefail
cd "$(dirname "$0")/.."
version=2.11.0 dir=.libtorch
[ "$(cat $dir/torch/build-version 2>/dev/null || true)" = "$version" ] && exit 0
echo "flow: fetching libtorch $version (about 500 MB, once)"
rm -rf $dir && mkdir -p $dir/wheels
python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp \
  --python-version 3.11 --abi cp311 --abi none \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_25_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
  --require-hashes -r scripts/libtorch.txt -d $dir/wheels
python3 - $dir <<'PY'
import glob, os, shutil, sys, zipfile
folder = sys.argv[1]
wanted = {"libtorch_cpu.so", "libc10.so", "libgomp.so.1", "libcudart.so.13", "libcupti.so.13"}
for wheel in glob.glob(folder + "/wheels/*.whl"):
    archive = zipfile.ZipFile(wheel)
    for name in archive.namelist():
        base = os.path.basename(name)
        if name.startswith("torch/include/") and base: target = name
        elif base in wanted and "/lib/" in name: target = "torch/lib/" + base
        else: continue
        path = os.path.join(folder, target)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with archive.open(name) as source, open(path, "wb") as sink: shutil.copyfileobj(source, sink, 1 << 20)
PY
# The wheel's own libtorch.so needs libtorch_cuda.so; an empty stand-in needs libtorch_cpu.so alone. It has
# an rpath of its own because an executable's RUNPATH does not serve the needs of its libraries.
gcc -shared -o $dir/torch/lib/libtorch.so -Wl,-soname,libtorch.so -Wl,-rpath,'$ORIGIN' -Wl,--no-as-needed -L$dir/torch/lib -ltorch_cpu
rm -rf $dir/wheels
echo $version > $dir/torch/build-version
