#!/bin/sh
# Install a distribution into an empty environment, and try it there: no checkout, no git.
#   sh tests/try_dist.sh dist/pmldesign-0.1.0-py3-none-any.whl python3
set -eu
file=$(realpath "$1")
python=${2:-python3}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$python" -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "$file[release,verify]" mypy pandas
cp "$(dirname "$0")"/types/*.py "$place"
cd "$place"
PATH=$place/venv/bin:/bin
export PATH
unset PYTHONPATH
pmldesign --version
pmldesign optimize prefix:16 --epsilon 1 --delta 1e-6 --noise gaussian -o sums.npz > optimize.txt
pmldesign verify sums.npz > verify.txt
printf 'sex,age\nF,31\nM,17\nF,64\n' > people.csv
printf '{"attributes": [{"name": "sex", "keys": ["F", "M"]}]}' > schema.json
pmldesign release sex people.csv --schema schema.json --epsilon 1 -o table.csv > release.txt
test "$(wc -l < table.csv)" = 3
printf '3\n5\n' | pmldesign stream sums.npz > answers.csv
test "$(wc -l < answers.csv)" = 2
python -c "import pmldesign as pml; assert pml.factorize('prefix:4', p=4).certificate.gap < 1e-5"
mypy --strict user.py
mypy --strict mistyped.py > mistyped.txt || true # an error on each line of a call, and no others
grep -nE '^(pml|NOISY)\.' mistyped.py | cut -d: -f1 > expected.txt
sed -nE 's/^mistyped.py:([0-9]+): error.*/\1/p' mistyped.txt | sort -nu | cmp expected.txt
python user.py > user.txt
echo "$(basename "$file") works"
