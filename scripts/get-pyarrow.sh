#!/usr/bin/env bash
# Puts pyarrow and numpy for the python3 that runs into .pyarrow, out of hash-pinned wheels: for operators in Python (flow_op) and their tests.
# Put .pyarrow on PYTHONPATH. Needs CPython 3.10 to 3.14 with pip, on Linux x86-64.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=.pyarrow python=$(python3 -c 'import sys; print(sys.implementation.cache_tag)')
made="$python $(cat scripts/pyarrow.txt scripts/get-pyarrow.sh | sha256sum)"
[ "$(cat $dir/version 2>/dev/null || true)" = "$made" ] && exit 0
echo "flow: fetching pyarrow and numpy for $python (65 MB, once)"
rm -rf $dir
python3 -m pip install -q --disable-pip-version-check --root-user-action ignore --no-deps --only-binary=:all: --require-hashes -r scripts/pyarrow.txt --target $dir
# Tests, headers, sources and the library of Arrow Flight aren't needed: 80 of 250 MB.
rm -rf $dir/bin $dir/pyarrow/{tests,include,src} $dir/pyarrow/*flight*
find $dir -name tests -type d -prune -exec rm -rf {} +
find $dir \( -name '*.a' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.h' -o -name '*.pyi' \) -type f -delete
echo "$made" > $dir/version
