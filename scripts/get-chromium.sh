#!/usr/bin/env bash
# A browser for the tests of `flow view`: the one that CHROMIUM names, the system's, or Debian's package.
set -euo pipefail
if [ -n "${CHROMIUM:-}" ] || [ -x /usr/bin/chromium ]; then exit 0; fi
echo "flow: installing chromium" >&2
if command -v apt-get > /dev/null && [ "$(id -u)" = 0 ]; then
  apt-get install -y -qq --no-install-recommends chromium > /dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium > /dev/null; }
else
  echo "there is no browser: install Chromium, or set CHROMIUM to one" >&2
  exit 1
fi
