#!/bin/sh
# Codex (npm: @openai/codex), which speaks Responses and streams. Its base URL must stand in its own config.
export CODEX_HOME="$FLOW_FOLDER/.codex"
mkdir -p "$CODEX_HOME" "$FLOW_FOLDER/work" && cd "$FLOW_FOLDER/work" || exit 1
cat > "$CODEX_HOME/config.toml" <<CONFIG
model = "policy"
model_provider = "flow"
web_search = "disabled"
[model_providers.flow]
name = "flow"
base_url = "$OPENAI_BASE_URL"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
CONFIG
a=$(printf %s "$FLOW_TASK" | sed 's/.*"a":\([0-9]*\).*/\1/')
b=$(printf %s "$FLOW_TASK" | sed 's/.*"b":\([0-9]*\).*/\1/')
codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -o answer \
  "Compute $a + $b with the shell, then answer with the sum alone." < /dev/null >&2
if [ "$(cat answer)" = "$((a + b))" ]; then echo '{"reward": 1.0}'; else echo '{"reward": 0.0}'; fi
