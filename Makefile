# Kernel Arena. `make` alone prints what there is.

PORT   ?= 8000
PYTHON ?= python3
BIN    := .venv/bin
ARENA_HOME ?= $(CURDIR)/.arena
export PORT PYTHON ARENA_HOME

MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help arena test test-gpu lint admin admit bench clean ready port browser

help:  ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

arena: ready port .venv/run.stamp  ## install what is missing and open the arena on http://127.0.0.1:8000 (PORT=)
	@exec $(BIN)/python -m runners

test: ready .venv/dev.stamp browser  ## run every test, those in a real browser among them
	@$(BIN)/pytest -m serial && alone=0 || alone=$$?; \
	$(BIN)/pytest -n 2 --dist loadfile -m "not serial" && exit $$alone

test-gpu:  ## judge tricks and honest kernels on this GPU (PYTHON= one with torch, triton and pytest)
	@$(PYTHON) -m pytest -c tests/gpu/pytest.ini tests/gpu

lint: ready .venv/dev.stamp  ## style, types, the arrows between packages, missing migrations
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python manage.py makemigrations --check --dry-run

admin: ready .venv/run.stamp  ## make a first superuser for /admin/
	@$(BIN)/python manage.py migrate --verbosity 0
	@$(BIN)/python manage.py createsuperuser $(if $(DJANGO_SUPERUSER_PASSWORD),--noinput)

admit: ready .venv/run.stamp  ## try every task: wrong answers must fail and honest ones pass
	@$(BIN)/python manage.py migrate --verbosity 0
	@$(BIN)/python -m runners sync
	@$(BIN)/python manage.py check_task

bench: ready .venv/run.stamp  ## measure the judge itself: repeatability, overhead, its clock
	@$(BIN)/python benchmarks/judge.py

clean:  ## remove what can be made again; runs and accounts in .arena stay
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache staticfiles
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

ready:
	@scripts/check

port:
	@scripts/check port

browser:
	@scripts/browser

# A stamp is written last, so that an installation that was cut off is taken up again.
.venv/%.stamp: pyproject.toml
	@echo "Installing what '$*' needs into .venv (once; some minutes, mostly torch)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --group $*
	@touch $@ .venv/run.stamp
