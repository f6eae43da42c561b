#!/usr/bin/env bash
# Makes a wheel out of target/release/flow and flow-study, libduckdb and the Python packages: scripts/wheel.sh FOLDER. PyTorch isn't in it: the program takes the one of the
# environment that it is installed in. auditwheel proves the tag: a symbol of a newer glibc fails.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1 version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
tools=.venv-wheel stage=target/wheel
if [ "$(cat $tools/made-from 2>/dev/null)" != "$(cat scripts/wheel.txt)" ]; then
  rm -rf $tools && python3 -m venv $tools
  $tools/bin/pip install -q --disable-pip-version-check -r scripts/wheel.txt
  cp scripts/wheel.txt $tools/made-from
fi
rm -rf $stage && mkdir -p $stage/src "$out"
for package in flow flow_env flow_op flow_train flow_runs flow_rl; do cp -r python/$package $stage/src/; done
find $stage/src -name __pycache__ -prune -exec rm -rf {} +
mkdir -p $stage/src/flow_rl/bin $stage/src/flow_rl/lib $stage/src/flow_rl/share
cp target/release/flow target/release/flow-study $stage/src/flow_rl/bin/
cp .duckdb/*.so $stage/src/flow_rl/lib/
# The library that loads PyTorch lies where the program looks for it.
cp "$($tools/bin/patchelf --print-rpath target/release/flow | tr : '\n' | grep flow-torch)/libflow_torch.so" $stage/src/flow_rl/lib/
cp -r pipelines datasets $stage/src/flow_rl/share/
strip --strip-all $stage/src/flow_rl/bin/*
strip --strip-unneeded $stage/src/flow_rl/lib/*.so
# Of the machine that built it nothing stays in the program's search path.
for program in $stage/src/flow_rl/bin/*; do $tools/bin/patchelf --set-rpath '$ORIGIN/../lib' $program; done
$tools/bin/patchelf --set-rpath '$ORIGIN/../../torch/lib' $stage/src/flow_rl/lib/libflow_torch.so
$stage/src/flow_rl/bin/flow --version
$stage/src/flow_rl/bin/flow study --version
sed "s/@version@/$version/" scripts/wheel.toml > $stage/pyproject.toml
cp README.md LICENSE $stage/
printf 'from setuptools import Distribution, setup\n\n\nclass Binary(Distribution):\n    def has_ext_modules(self):\n        return True\n\n\nsetup(distclass=Binary)\n' > $stage/setup.py
$tools/bin/pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w $stage/made \
  --config-settings=--build-option=--python-tag=py3 --config-settings=--build-option=--py-limited-api=cp39 $stage
PATH="$PWD/$tools/bin:$PATH" LD_LIBRARY_PATH=".libtorch/torch/lib:$stage/src/flow_rl/lib" $tools/bin/auditwheel repair --plat manylinux_2_34_x86_64 -w "$out" \
  --exclude 'libtorch*.so' --exclude libc10.so --exclude 'libgomp*' --exclude 'libcu*' $stage/made/*.whl
ls -l "$out"/*.whl
