#!/bin/sh
# Write requirements/*.txt anew: the releases that constraints.txt pins, with the SHA-256 of all their files.
# One file for each thing to install: fedorbit itself (run) and every extra, which begins with `-r run.txt`.
# Why PyTorch is in none of them: docs/decisions/012-supply-chain.md.
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${PYTHON:-python3}" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check uv==0.13.8

# pins NAME PROJECT: write what PROJECT needs, according to pip, as NAME==VERSION lines.
pins() {
  PIP_CONSTRAINT=constraints.txt "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check \
    --dry-run --ignore-installed --report "$scratch/report.json" "$2"
  "$scratch/venv/bin/python" - "$scratch/report.json" > "$scratch/$1.in" <<'PYTHON'
import json, sys
with open(sys.argv[1]) as file:
    found = {item["metadata"]["name"]: item["metadata"]["version"] for item in json.load(file)["install"]}
for name in sorted(found.keys() - {"fedorbit", "torch"}, key=str.lower):
    print(f"{name}=={found[name]}")
PYTHON
}

# hashes NAME [OPTION…]: write requirements/NAME.txt from those pins, for all platforms and Pythons.
hashes() {
  name=$1
  shift
  {
    echo "# Written by \`make lock\`; use: pip install --require-hashes -r requirements/$name.txt"
    # A source package would be built with tools that no list names.
    echo "--only-binary :all:"
    if [ "$name" != run ]; then echo "-r run.txt"; fi
    "$scratch/venv/bin/uv" pip compile --quiet --no-header --no-annotate --generate-hashes \
      --universal --python-version 3.11 "$@" "$scratch/$name.in"
  } > "$scratch/$name.txt"
}

pins run .
hashes run
# What run.txt has for Windows alone may be needed everywhere by an extra, and is listed there again.
# shellcheck disable=SC2046 # one word for each name
for extra in rar tiff tensorboard mlflow wandb onnx pandas serve ray docs test; do
  pins "$extra" ".[$extra]"
  hashes "$extra" $(sed -n '/ ; /!s/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' "$scratch/run.txt")
done
mkdir -p requirements
mv "$scratch"/*.txt requirements/
