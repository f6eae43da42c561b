#!/usr/bin/env bash
# Serves the Hugging Face folder MODEL with adapters by a vLLM on a processor, on loopback: scripts/serve-vllm.sh MODEL [PORT] [ARGUMENTS...].
# VLLM names its command; KV_GB is the memory of its keys and values, MAX_ROWS how many requests it works on at a time.
# - Large parts of a prompt: a request with a seed whose prompt is read in several ends this build ("CPU Generator does not use offset").
# - Small batches: its adapters gather weights for each token, and take much memory at many tokens a step.
set -euo pipefail
model=$1 port=${2:-8000}
shift $(($# > 1 ? 2 : 1))
export VLLM_ALLOW_RUNTIME_LORA_UPDATING=True VLLM_CPU_KVCACHE_SPACE="${KV_GB:-1}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_CPU_OMP_THREADS_BIND=nobind TORCHDYNAMO_DISABLE=1
exec "${VLLM:-.venv-vllm/bin/vllm}" serve "$model" --host 127.0.0.1 --port "$port" --enable-lora --max-lora-rank 16 --max-loras 2 \
  --max-model-len 2048 --enforce-eager --dtype float32 --max-num-seqs "${MAX_ROWS:-16}" --max-num-batched-tokens 8192 "$@"
