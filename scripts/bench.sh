#!/usr/bin/env bash
# Runs every benchmark, two threads of libtorch each, the comparisons with Python taking turns with it run by run.
# The peers live in .venv-bench (about 6 GB, once); without a Python 3.11 this side is measured alone.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=2
if [ -z "${BENCH_PYTHON:-}" ] && ! cmp -s benches/requirements.txt .venv-bench/made-from; then
  if command -v python3.11 >/dev/null; then
    echo "flow: fetching the Python peers (several GB, once)"
    rm -rf .venv-bench
    python3.11 -m venv .venv-bench
    .venv-bench/bin/pip install -q --disable-pip-version-check --no-deps -r benches/requirements.txt
    cp benches/requirements.txt .venv-bench/made-from
  else
    echo "flow: no python3.11, so no comparison with Python"
  fi
fi
for bench in engine credit scale alike env policy; do
  echo "== $bench"
  "${CARGO:-cargo}" bench --quiet --bench "$bench"
done
