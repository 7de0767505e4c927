#!/bin/sh
# Makes the virtual environment of the project, or brings it up to date.
#
#   sh scripts/environment.sh FOLDER EXTRAS
#
# PYTHON    the interpreter to use; without it the first that fits is taken
# TORCH     the requirement for torch, for example TORCH='torch==2.9.1'
# PIP_ARGS  further arguments of every pip install, for example an index with CPU builds of torch
#
# A second run with the same setup.py, extras and settings does nothing.
set -eu

folder=$1
extras=$2
here=$(cd "$(dirname "$0")/.." && pwd)
stamp=$folder/.installed

say() { printf 'environment: %s\n' "$*" >&2; }
die() {
    say "error: $*"
    exit 1
}

fits() { "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; }
has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }
version_of() { "$1" -c 'import platform; print(platform.python_version())'; }

# 3.11 and 3.12 come first: fairseq has wheels there. A pyenv shim can be on the path and still
# refuse to run, so every candidate is started before it is taken.
candidates() {
    for minor in 11 12 10; do echo "python3.$minor"; done
    echo python3
    for minor in 11 12 10; do
        for python in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."$minor".*/bin/python3; do
            [ -x "$python" ] && echo "$python"
        done
    done
    return 0
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        fits "$PYTHON" || die "PYTHON=$PYTHON does not run or is not Python 3.10 to 3.12"
        has_venv "$PYTHON" ||
            die "PYTHON=$PYTHON has no venv or ensurepip module: install it (Debian: apt install python3-venv)"
        command -v "$PYTHON"
        return
    fi
    without_venv=
    # Paths with spaces stay whole: one candidate a line.
    list=$(candidates)
    while IFS= read -r candidate; do
        fits "$candidate" || continue
        if has_venv "$candidate"; then
            command -v "$candidate"
            return
        fi
        without_venv="$without_venv $candidate"
    done <<LIST
$list
LIST
    if [ -n "$without_venv" ]; then
        die "found$without_venv, but without the venv or ensurepip module: install it (Debian: apt install python3-venv), or name another with PYTHON=..."
    fi
    die "no Python 3.10 to 3.12 found: install one, or name it with PYTHON=/path/to/python"
}

# Folders keep their interpreter: what it was made with is what it is checked against.
if [ -e "$folder" ] && ! { [ -x "$folder/bin/python" ] && fits "$folder/bin/python"; }; then
    die "$folder has no Python 3.10 to 3.12 that runs: remove it (rm -r $folder) and start again"
fi
if [ -x "$folder/bin/python" ]; then
    say "reusing $folder (Python $(version_of "$folder/bin/python"))"
else
    python=$(find_python)
    say "using $python (Python $(version_of "$python")) for $folder"
    "$python" -m venv "$folder" || {
        rm -rf "$folder"
        die "cannot make a virtual environment with $python"
    }
fi
env_python=$folder/bin/python

old_python=no
"$env_python" -c 'import sys; sys.exit(sys.version_info >= (3, 11))' && old_python=yes

# fairseq 0.12.2, the only release below Python 3.11, was compiled and tested with torch 1 and
# numpy 1; torch 2.2 is the newest that reads its checkpoints and still speaks numpy 1.
if [ -z "${TORCH:-}" ]; then
    if [ $old_python = yes ]; then TORCH='torch==2.2.2'; else TORCH='torch==2.13.0'; fi
fi
numpy=numpy
[ $old_python = no ] || numpy='numpy<2'

wanted="$(cksum <"$here/setup.py") extras=$extras torch=$TORCH at=$here"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    say "$folder is up to date"
    exit 0
fi

install() {
    # shellcheck disable=SC2086  # PIP_ARGS is a list of words on purpose
    "$env_python" -m pip install --disable-pip-version-check ${PIP_ARGS:-} "$@"
}

if [ $old_python = yes ]; then
    # omegaconf 2.0.6, which fairseq 0.12.2 needs, has metadata that pip 24.1 and later refuse.
    "$env_python" -c 'import pip, sys; sys.exit([int(p) for p in pip.__version__.split(".")[:2]] >= [24, 1])' ||
        install 'pip<24.1'
fi

if nvidia-smi >/dev/null 2>&1; then
    say "an NVIDIA GPU is here: installing $TORCH"
    install "$TORCH" "$numpy"
else
    say "no NVIDIA GPU here: installing the CPU build of $TORCH"
    # Only an exact version can carry the local label of a CPU build, and not every index has one.
    case $TORCH in
    *==*+*) install "$TORCH" "$numpy" ;;
    *==*)
        install "$TORCH+cpu" "$numpy" 2>/dev/null || {
            say "this pip index has no $TORCH+cpu: installing $TORCH"
            say "(to save space, point pip at PyTorch's index of CPU builds with PIP_ARGS='--extra-index-url ...')"
            install "$TORCH" "$numpy"
        }
        ;;
    *) install "$TORCH" "$numpy" ;;
    esac
fi
# torch is named again, or a requirement of another package could replace it.
install "$TORCH" "$numpy" -e "$here[$extras]"
printf '%s\n' "$wanted" >"$stamp.tmp"
mv "$stamp.tmp" "$stamp"
say "$folder is ready"
