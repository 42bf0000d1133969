#!/bin/sh
# Install the wheel in dist/ that fits this machine into a clean environment, and run the quickstart there.
#   sh scripts/try_wheel.sh pinned|newest kernel|torch     PyTorch's release, and what must train
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
version=$(ls dist/fedorbit-*.tar.gz | sed 's/.*fedorbit-\(.*\)\.tar\.gz/\1/')
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${PYTHON:-python3}" -m venv "$scratch/venv"
cd "$scratch"
[ "$1" = newest ] || cp "$root/constraints.txt" .
touch constraints.txt
install="venv/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt"
$install torch --index-url "${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}"
$install --find-links "$root/dist" --only-binary fedorbit "fedorbit==$version"
export FEDORBIT_CACHE="$scratch/cache"
venv/bin/fedorbit doctor
venv/bin/fedorbit doctor --json | grep -q "\"value\": \"$2\""
venv/bin/fedorbit run --out run
venv/bin/fedorbit report run
