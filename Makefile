# Two commands: `make demo` shows the idea, `make test` runs every check.
# Each makes its own virtual environment; nothing outside this folder is touched,
# except that `make test` as root on Debian adds libEGL when it is missing.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BENCHMARKS ?= $(sort $(filter-out benchmarks/_%,$(wildcard benchmarks/*.py)))
# A file of tests stays in one process: scenes of a simulator are shared inside it.
PYTEST_ARGS ?= -n auto --dist loadfile

RUN := .venv/bin/python -m
READY := .venv/installed
PINNED := -c constraints.txt

export PIP_DISABLE_PIP_VERSION_CHECK ?= 1
export SDL_VIDEODRIVER ?= dummy

# ldconfig is outside an ordinary user's PATH.
HAS_EGL := PATH="$$PATH:/usr/sbin:/sbin" ldconfig -p 2>/dev/null | grep -q 'libEGL\.so\.1'

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test lint layers types tests docs wheel format bench clean egl

help:  ## list the verbs
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: .venv-demo/installed  ## install the core alone and run the demonstration
	.venv-demo/bin/twopass demo

test: lint layers types tests docs wheel  ## every check, in this order
	@echo "make test: every check passed"

lint: $(READY)  ## ruff: rules and format
	$(RUN) ruff check
	$(RUN) ruff format --check

layers: $(READY)  ## import-linter: imports point one way
	.venv/bin/lint-imports

types: $(READY)  ## mypy, strict
	$(RUN) mypy

# Without libEGL, MUJOCO_GL=egl would break `import mujoco` itself, hence "disable".
tests: $(READY) egl  ## pytest: tests, and the examples in src, README and docs
	@if [ -z "$$MUJOCO_GL" ]; then \
	  if $(HAS_EGL); then MUJOCO_GL=egl; else MUJOCO_GL=disable; fi; export MUJOCO_GL; \
	fi; \
	echo "MUJOCO_GL=$$MUJOCO_GL pytest $(PYTEST_ARGS)"; $(RUN) pytest $(PYTEST_ARGS)

docs: $(READY)  ## Sphinx, a warning is an error
	$(RUN) sphinx -n -T -W --keep-going -q docs docs/_build/html

wheel: $(READY)  ## build the wheel and try it alone in an empty environment
	rm -rf dist
	$(RUN) build --wheel --no-isolation
	$(PYTHON) -m venv --clear .venv-wheel
	.venv-wheel/bin/python -m pip install -q $(PINNED) dist/*.whl
	.venv-wheel/bin/python -I tests/smoke.py

format: $(READY)  ## apply ruff's fixes and format
	$(RUN) ruff check --fix
	$(RUN) ruff format

bench: .venv/installed-bench  ## run the benchmarks (BENCHMARKS=... for some of them)
	@set -e; for script in $(BENCHMARKS); do echo "== $$script"; .venv/bin/python $$script; done

clean:  ## remove environments, caches and builds
	rm -rf .venv .venv-demo .venv-wheel build dist docs/_build
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

egl:
	@$(HAS_EGL) || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  export DEBIAN_FRONTEND=noninteractive && apt-get update -qq && \
	  apt-get install -y -qq --no-install-recommends libegl1 libgl1 libgl1-mesa-dri; \
	} || echo "No libEGL: tests that render MuJoCo or Genesis are skipped (Debian: apt-get install libegl1 libgl1 libgl1-mesa-dri)"

# An environment is made once and brought up to date when its inputs change.
$(READY): pyproject.toml constraints.txt
	@echo "Installing the development environment into .venv (minutes, the first time)"
	$(PYTHON) -m venv .venv
	$(RUN) pip install -q -U 'pip>=25.3'
	$(RUN) pip install -q $(PINNED) --build-constraint constraints.txt -e . --group dev
	@touch $@

.venv/installed-bench: $(READY)
	$(RUN) pip install -q $(PINNED) --group bench
	@touch $@

.venv-demo/installed: pyproject.toml constraints.txt
	@echo "Installing twopass into .venv-demo"
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/python -m pip install -q $(PINNED) -e '.[demo]'
	@touch $@
