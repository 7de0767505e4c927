# make quickstart   make the environment and run the quickstart (QUICKSTART_SIZE=smoke: 3 minutes)
# make test         make the environment and run the tests (TESTS='tests/data -x' for some of them)
# make lint         check style and format
# make matrix       run the tests on every Python and fairseq that is here (ROWS='3.11 3.12' for some)
# make theory       run the Ising study
# make clean        remove the environment and what the examples wrote
#
# PYTHON=...        the interpreter for the environment (3.10 to 3.12; found by itself otherwise)
# TORCH=...         the requirement for torch, such as TORCH='torch==2.9.1'
# PIP_ARGS=...      further arguments of pip install, such as an index with CPU builds of torch
# VENV=...          the folder of the environment
# EXTRAS=...        the optional parts that are installed

VENV ?= .venv
EXTRAS ?= test,plot,fast
PYTHON ?=
TORCH ?=
PIP_ARGS ?=
TESTS ?=
ROWS ?=
export PYTHON TORCH PIP_ARGS

.PHONY: help environment quickstart test lint format matrix theory clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile

environment:
	@sh scripts/environment.sh "$(VENV)" "$(EXTRAS)"

quickstart: environment
	"$(VENV)/bin/python" examples/quickstart/run.py

test: environment
	"$(VENV)/bin/python" -m pytest -n auto --dist loadfile $(TESTS)

lint: environment
	"$(VENV)/bin/python" -m ruff check .
	"$(VENV)/bin/python" -m ruff format --check .

format: environment
	"$(VENV)/bin/python" -m ruff check --fix .
	"$(VENV)/bin/python" -m ruff format .

# Each row makes an environment of its own: settings for one do not fit all.
matrix: environment
	env -u PYTHON -u TORCH "$(VENV)/bin/python" scripts/matrix.py $(if $(ROWS),--rows $(ROWS)) \
		--tests '$(TESTS)' --page docs/compatibility.md

theory: environment
	"$(VENV)/bin/python" examples/ising/run.py

clean:
	rm -rf "$(VENV)" .matrix build dist outputs runs *.egg-info .pytest_cache .ruff_cache .hypothesis
	find fairseq_gmlm examples tests -name __pycache__ -type d -prune -exec rm -rf {} +
