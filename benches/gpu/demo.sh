#!/usr/bin/env bash
# demo.sh CASE...: on the GPU machine, after unpack.sh; each case prints what it measured.
#   a  the calculator by a vLLM and flow_train on one GPU: success, and seconds by part (2 minutes)
#   b  conversations of ten turns: flow_train's layouts beside a plain loop (3 minutes); SHAPE=1.5b for a larger one
#   e  a again, whose server is killed in the middle (2 minutes)
set -uo pipefail
export OMP_NUM_THREADS=4 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1
export FLOW_TRAIN_PYTHON=${FLOW_TRAIN_PYTHON:-$(command -v python3)} FLOW_VLLM_PYTHON=${FLOW_VLLM_PYTHON:-/tmp/vllm-python}
export VLLM_USE_FLASHINFER_SAMPLER=0
cd "${MAIN:-/tmp/main}" && cp benches/gpu/calculator.yaml pipelines/agents/gpu-calculator.yaml || exit
figures() {
  flow query "$1" "select iteration, round(avg(reward), 3) as held_out from held_out where done group by all order by all"
  flow query "$1" "select node, name, round(avg(value), 3) as mean, round(max(value), 3) as most from metrics where name like '%seconds' or name like 'tokens_%' group by all order by all"
}
a() { rm -rf runs/a; time flow run pipelines/agents/gpu-calculator.yaml --device cuda --out runs/a; figures runs/a; }
b() {
  local words=(--shape "${SHAPE:-0.5b}" --folder /tmp/models)
  python3 -W ignore benches/gpu/turns.py "${words[@]}" --modes tree,plain-packed,packed-alone,plain-alone --rounds 2
  python3 -W ignore benches/gpu/turns.py "${words[@]}" --modes plain --rounds 0
}
e() {
  rm -rf runs/e
  flow run pipelines/agents/gpu-calculator.yaml --device cuda --out runs/e --set iterations=12 & local run=$!
  for _ in $(seq 240); do [ -e runs/e/weights/2 ] && break; sleep 0.5; done
  pkill -9 -f 'vllm.entrypoints.cli.main serve' && echo "the server was killed"
  wait $run; echo "the run ended with $?"; figures runs/e
}
nvidia-smi --query-gpu=name,memory.total --format=csv,noheader
for case in "$@"; do echo "== $case"; "$case"; done
