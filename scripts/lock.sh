#!/bin/sh
# Write constraints.txt anew: the newest releases that pyproject.toml admits, in a clean environment.
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${PYTHON:-python3}" -m venv "$scratch/venv"
# PyTorch stays where pyproject.toml's tests were run; a newer one is a decision, not an update.
echo "torch==${TORCH:-2.13.0}" > "$scratch/torch.txt"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check -c "$scratch/torch.txt" '.[test]'
{
  echo "# Everything that is tested, pinned. Written by \`make lock\`; with hashes: requirements/"
  # The build backend, too: the environment's own builds fedorbit.
  sed -n 's/^requires = \["\(setuptools==[^"]*\)"\]$/\1/p' pyproject.toml
  # Without a build tag such as +cpu, which names a build and not a release.
  "$scratch/venv/bin/pip" freeze --exclude fedorbit --exclude setuptools | sed 's/+[a-z0-9.]*$//'
} > "$scratch/constraints.txt"
if grep -q '^nvidia' "$scratch/constraints.txt"; then
  echo "pip found a CUDA build of PyTorch, whose libraries must not be pinned for everybody; let pip find the CPU build." >&2
  exit 2
fi
mv "$scratch/constraints.txt" constraints.txt
