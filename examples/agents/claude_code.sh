#!/bin/sh
# Claude Code (npm: @anthropic-ai/claude-code), which speaks Messages and streams.
export CLAUDE_CONFIG_DIR="$FLOW_FOLDER/.claude" IS_SANDBOX=1 DISABLE_AUTOUPDATER=1
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 CLAUDE_CODE_ATTRIBUTION_HEADER=0
export ANTHROPIC_MODEL=policy ANTHROPIC_DEFAULT_HAIKU_MODEL=policy # side calls would ask for a small model
unset ANTHROPIC_AUTH_TOKEN                                         # it takes one credential, the key
mkdir -p "$FLOW_FOLDER/work" && cd "$FLOW_FOLDER/work" || exit 1
a=$(printf %s "$FLOW_TASK" | sed 's/.*"a":\([0-9]*\).*/\1/')
b=$(printf %s "$FLOW_TASK" | sed 's/.*"b":\([0-9]*\).*/\1/')
answer=$(claude -p "Compute $a + $b with the shell, then answer with the sum alone." --dangerously-skip-permissions < /dev/null)
if [ "$answer" = "$((a + b))" ]; then echo '{"reward": 1.0}'; else echo '{"reward": 0.0}'; fi
