# Kernel Arena. `make` alone lists the targets.

PORT   ?= 8000
BIN    := .venv/bin
# An empty setting counts as unset: an empty ARENA_HOME would be the checkout itself.
override PYTHON := $(or $(PYTHON),python3)
override ARENA_HOME := $(or $(ARENA_HOME),$(CURDIR)/.arena)
override ARENA_HARNESSES := $(or $(ARENA_HARNESSES),$(ARENA_HOME)/harnesses)
export PORT PYTHON ARENA_HOME ARENA_HARNESSES

# What tests that measure time depend on: the judge's timing, its sandboxed side, live models, tricks; live pages.
SERIAL  = $(shell grep -rls mark.serial --include='*.py' tests)
TIMED   = $(addprefix evaluation/,bench judge kinds sandbox sandboxed) tasks/production \
          tests/evaluation/hostile tests/gains.py arena/runs/live arena/sockets.py static/js $(SERIAL)
# Some tests wait, so one more than there are cores keeps these busy.
WORKERS = $(shell echo $$(($$(nproc) + 1)))
pytest  = $(if $(CI),scripts/retry) $(BIN)/pytest $(if $(CI),--costs=$(ARENA_HOME)/test-costs/$(1).txt)

# A recipe that exits 1 has printed why. Under -q, make then exits 1 too and prints nothing itself.
# Under -q only lines that begin with + run, like those of a sub-make. Under -n no line may run.
ifeq (,$(findstring n,$(firstword -$(MAKEFLAGS))))
MAKEFLAGS += -q
DO := +
endif
MAKEFLAGS += --no-print-directory
unexport MAKEFLAGS

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help arena agents test test-timing test-postgres test-gpu lint admin admit bench clean ready port extras

help:  ## list the targets
	$(DO)@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

arena: ready port .venv/run.stamp  ## install what is missing and start the arena on http://127.0.0.1:8000 (PORT=)
	$(DO)@exec $(BIN)/python -m runners

agents:  ## install the command lines of agents: claude, codex, gemini, opencode, qwen, mini
	$(DO)@scripts/agents

test: ready .venv/dev.stamp extras  ## run every test; those that measure time where their files changed, and in CI
	$(DO)@scripts/timing --if-changed $(TIMED) -- $(call pytest,timing) -m serial $(SERIAL) && alone=0 || alone=$$?; \
	$(call pytest,parallel) -n $(WORKERS) -m "not serial" $(if $(CI),--ignore tests/arena) && exit $$alone

test-timing: ready .venv/dev.stamp extras  ## run the tests that measure time
	$(DO)@scripts/timing $(TIMED) -- $(call pytest,timing) -m serial $(SERIAL)

test-postgres: ready .venv/dev.stamp extras  ## run tests/arena on a temporary PostgreSQL
	$(DO)@scripts/postgres $(call pytest,postgres) -n $(WORKERS) -m "not serial" tests/arena

test-gpu:  ## judge tricks and honest kernels on this GPU (PYTHON= one with torch, triton, pytest; RESULTS=)
	$(DO)@$(PYTHON) -m pytest -c tests/gpu/pytest.ini tests/gpu $(if $(RESULTS),--results $(RESULTS))

lint: ready .venv/dev.stamp  ## check style, types, imports, layout, migrations, and vulnerabilities of packages
	$(DO)@$(BIN)/ruff check
	$(DO)@$(BIN)/ruff format --check
	$(DO)@$(BIN)/mypy
	$(DO)@$(BIN)/lint-imports --no-logo
	$(DO)@$(BIN)/python scripts/layout
	$(DO)@git ls-files 'templates/*.html' | xargs $(BIN)/djade --check --target-version 5.2
	$(DO)@$(BIN)/python manage.py makemigrations --check --dry-run
	$(DO)@$(PYTHON) scripts/audit --if-possible

admin: ready .venv/run.stamp  ## create a superuser for /admin/
	$(DO)@$(BIN)/python manage.py migrate --verbosity 0
	$(DO)@$(BIN)/python manage.py createsuperuser $(if $(DJANGO_SUPERUSER_PASSWORD),--noinput)

admit: ready .venv/run.stamp  ## check every task: wrong implementations must fail, honest ones pass
	$(DO)@$(BIN)/python manage.py migrate --verbosity 0
	$(DO)@$(BIN)/python -m runners sync
	$(DO)@$(BIN)/python manage.py check_task

bench: ready .venv/run.stamp  ## measure the judge on this CPU: repeatability, overhead, rounds, clock
	$(DO)@$(BIN)/python benchmarks/judge.py

clean:  ## remove what can be made again; runs and accounts in .arena stay
	$(DO)rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache staticfiles
	$(DO)find . -name __pycache__ -type d -prune -exec rm -rf {} +

ready:
	$(DO)@scripts/check

port:
	$(DO)@scripts/check port

extras:
	$(DO)@scripts/extras

# The stamp is written last, so an interrupted installation continues at the next start.
.venv/%.stamp: locks/%.txt locks/torch-cpu.txt locks/torch-cuda.txt
	$(DO)@$(PYTHON) scripts/install $*
	$(DO)@touch $@ $(if $(filter dev,$*),.venv/run.stamp)
