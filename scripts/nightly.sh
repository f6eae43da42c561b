#!/usr/bin/env bash
# Every soak test (tests/soak), one after the other, with the time and the end of each; hours. What a test needs is not fetched: without it the test is
# skipped, and the report says what is missing. The output of each is in target/nightly/. Ends with 1 if one failed.
#   scripts/nightly.sh [NAME...]     LIMIT is the time that one may take (4h)
set -uo pipefail
cd "$(dirname "$0")/.."
folder=target/nightly limit=${LIMIT:-4h} report='' failed=0
mkdir -p "$folder"
export OMP_NUM_THREADS=1
trainer=${FLOW_TRAIN_PYTHON:-$PWD/.flow/train/bin/python}

# soak NAME MISSING ARGUMENTS...: MISSING says what the test lacks here, and is empty where it lacks nothing.
soak() {
  local name=$1 missing=$2 began=$SECONDS code=0 state
  shift 2
  [ ${#only[@]} -eq 0 ] || [[ " ${only[*]} " == *" $name "* ]] || return 0
  if [ -n "$missing" ]; then
    state="skipped: $missing"
  else
    echo "flow: $name"
    timeout --kill-after 60 "$limit" python3 "tests/soak/$name.py" "$@" > "$folder/$name.log" 2>&1 || code=$?
    case $code in
      0) state=passed ;;
      124 | 137) state="FAILED after $limit: $folder/$name.log" failed=1 ;;
      *) state="FAILED with $code: $folder/$name.log" failed=1 ;;
    esac
  fi
  report+=$(printf '%-13s %6d s  %s' "$name" $((SECONDS - began)) "$state")$'\n'
}
lacks() { [ -e "$1" ] || echo "$2"; }
only=("$@")
for name in "${only[@]}"; do
  [ -e "tests/soak/$name.py" ] || { echo "there is no tests/soak/$name.py" >&2; exit 2; }
done

soak survive ''
soak digests ''
soak killed ''
soak faults ''
soak staleness ''
soak hostile "$(lacks .gguf/made-from 'the package gguf, which make nightly fetches')" --sample 500 --jobs 2
soak network "$([ "$(uname)$(id -u)" = Linux0 ] || echo 'root on Linux')"
soak agents "$(lacks .flow/env/program 'flow env install program')"
soak environment_faults "$(lacks .venv-textworld-express 'environments, which make environment-faults installs')"
soak trainer "$(lacks "$trainer" 'make train-env')"
soak servers "$(lacks .venv-vllm/made-from 'make servers')"
printf '\n%s' "$report"
exit $failed
