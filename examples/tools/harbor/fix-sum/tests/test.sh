#!/bin/bash
right=0
for numbers in "1 2 3" "5" "-4 4"; do
  want=$(( $(echo "$numbers" | tr ' ' '+') ))
  [ "$(bash /app/total.sh $numbers)" = "$want" ] && right=$((right + 1))
done
echo "{\"reward\": $((right / 3)), \"right\": $right}" > /logs/verifier/reward.json
