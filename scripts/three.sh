#!/bin/sh
# Write src/fedorbit/serve/assets/three.js anew: the parts of three.js that the globe uses, in one minified file.
# Needs npm; npm compares what it fetches with the hashes that are given here.
set -eu
cd "$(dirname "$0")/.."
assets=$PWD/src/fedorbit/serve/assets
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
THREE=0.187.0
THREE_SHA512=Qiu7R+Cmh8CstZsY1uJOSWnVlfo7ZtNLV7mF8Jltk3LB3AtDu9cRZlcnRKkAk8Y4z6KKw35z7Y7Urd7jWY8etA==
npm init --yes > /dev/null
npm install --silent --ignore-scripts "three@$THREE" esbuild@0.28.2
grep -qF "sha512-$THREE_SHA512" package-lock.json || { echo "three@$THREE is not the one that was looked at" >&2; exit 2; }
# What globe_scene.js imports, and nothing else.
names=$(tr '\n' ' ' < "$assets/globe_scene.js" | sed 's/^.*import {\([^}]*\)} from "\.\/three\.js".*$/\1/')
echo "export {$names} from \"three\";" > entry.js
node_modules/.bin/esbuild entry.js --bundle --minify --format=esm --legal-comments=inline --outfile="$assets/three.js"
cp node_modules/three/LICENSE "$assets/three-LICENSE.txt"
