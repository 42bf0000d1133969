#!/bin/sh
# Write constraints.txt anew: the newest releases that pyproject.toml admits, in a clean environment.
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${PYTHON:-python3}" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check '.[test]'
{
  echo "# Everything that is tested, pinned. Written by \`make lock\`; use: pip install -c constraints.txt ."
  # The build backend, too: PIP_CONSTRAINT reaches build environments.
  sed -n 's/^requires = \["\(setuptools==[^"]*\)"\]$/\1/p' pyproject.toml
  "$scratch/venv/bin/pip" freeze --exclude fedorbit --exclude setuptools
} > "$scratch/constraints.txt"
mv "$scratch/constraints.txt" constraints.txt
