#!/bin/sh
# A shell script with curl: one question, and the answer is the reward's business.
read -r task
a=$(printf %s "$task" | sed 's/.*"a":\([0-9]*\).*/\1/')
b=$(printf %s "$task" | sed 's/.*"b":\([0-9]*\).*/\1/')
answer=$(curl -sS "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer $OPENAI_API_KEY" -H "Content-Type: application/json" \
  -d "{\"model\":\"policy\",\"messages\":[{\"role\":\"user\",\"content\":\"What is $a + $b? Answer with the sum alone.\"}]}" |
  sed 's/.*"content": *"\([^"]*\)".*/\1/')
if [ "$answer" = "$((a + b))" ]; then echo '{"reward": 1.0}'; else echo '{"reward": 0.0}'; fi
