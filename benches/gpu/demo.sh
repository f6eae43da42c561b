#!/usr/bin/env bash
# demo.sh CASE...: on the GPU machine, after unpack.sh; each case prints what it measured.
#   a  the calculator by a vLLM and flow_train on one GPU: success, and seconds by part (2 minutes)
#   b  conversations of ten turns: flow_train's layouts beside a plain loop, and TRL where it is installed (4 minutes); SHAPE=1.5b for a larger one
#   c  tokens a second through `serve` beside a bare client, at 64 and 256 answers in flight (3 minutes)
#   d  the largest model and the longest answers that fit with both halves (10 minutes); SHAPES=14b,7b chooses, SLEEP=--sleep has vLLM sleep
#   e  a, in which the server, the trainer and flow are killed (3 minutes)
# TINY=1 runs b to e with tiny models, also without a GPU: to see that they work. MAIN is the checkout.
set -uo pipefail
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4} TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1 TRL_EXPERIMENTAL_SILENCE=1
export FLOW_TRAIN_PYTHON=${FLOW_TRAIN_PYTHON:-$(command -v python3)} FLOW_VLLM_PYTHON=${FLOW_VLLM_PYTHON:-/tmp/vllm-python}
export VLLM_USE_FLASHINFER_SAMPLER=0 FLOW=${FLOW:-flow} TINY=${TINY:-}
cd "${MAIN:-/tmp/main}" || exit
failed=0 pipeline=pipelines/agents/gpu-calculator.yaml
python() { "$FLOW_TRAIN_PYTHON" -W ignore "benches/gpu/$@" || failed=1; }
figures() {
  "$FLOW" query "$1" "select iteration, round(avg(reward), 3) as held_out from held_out where done group by all order by all"
  "$FLOW" query "$1" "select node, name, round(avg(value), 3) as mean, round(max(value), 3) as most from metrics where name like '%seconds' or name like 'tokens_%' group by all order by all"
}
a() {
  [ -z "$TINY" ] || { echo "skipped: it needs SmolLM2"; return; }
  cp benches/gpu/calculator.yaml $pipeline && rm -rf runs/a
  time "$FLOW" run $pipeline --device cuda --out runs/a || failed=1
  figures runs/a
}
b() {
  local words=(--shape "${SHAPE:-0.5b}" --folder /tmp/models)
  [ -z "$TINY" ] || words=(--shape nano --episodes 8 --answer 30 --prompt 100 --seen 4 --group 4 --tokens 4096)
  python turns.py "${words[@]}" --modes tree,plain-packed,packed-alone,plain-alone --rounds 2
  python turns.py "${words[@]}" --modes plain,trl --rounds "${TINY:-0}" --limit 240
}
c() { if [ -n "$TINY" ]; then python rates.py --shape tiny --in-flight 4 --tokens 16; else python rates.py --model /tmp/models/smollm2-hf --in-flight 64,256; fi; }
d() {
  local words=(--shapes "${SHAPES:-14b,7b,3b}" --folder /tmp/models)
  [ -z "$TINY" ] || words=(--shapes tiny --length 64 --context 512 --most 1024)
  python largest.py "${words[@]}" ${SLEEP:-}
}
e() {
  [ -z "$TINY" ] || { python kills.py --shape tiny; return; }
  cp benches/gpu/calculator.yaml $pipeline && python kills.py --pipeline $pipeline
}
nvidia-smi --query-gpu=name,memory.total --format=csv,noheader 2>/dev/null || echo "no GPU"
for case in "$@"; do echo "== $case"; "$case"; done
exit $failed
