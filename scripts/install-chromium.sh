#!/bin/sh
# Install Chromium where it is missing, for the browser tests of the report; they are skipped without it.
set -eu
for name in chromium chromium-browser; do
  if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if [ "$(id -u)" = 0 ]; then
  as_root=""
elif sudo -n true 2>/dev/null; then
  as_root="sudo -n"
else
  as_root="none"
fi
if ! command -v apt-get >/dev/null 2>&1 || [ "$as_root" = none ]; then
  echo "Chromium is missing and cannot be installed from here: install your system's package 'chromium', or the report's browser tests are skipped." >&2
  exit 0
fi
echo "Installing chromium for the report's browser tests"
# shellcheck disable=SC2086 # nothing at all for root
if ! { $as_root apt-get install -y -qq chromium || { $as_root apt-get update -qq && $as_root apt-get install -y -qq chromium; }; } >/dev/null 2>&1; then
  echo "apt-get could not install chromium; install it by hand, or the report's browser tests are skipped." >&2
fi
