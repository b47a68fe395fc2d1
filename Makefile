# make demo | test | check | fix | bench
# Needs Python 3.11+ with venv, git and make. Everything else goes into .venv, from hash-locked requirements.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready-dev
READY_RUN := $(VENV)/.ready

.PHONY: help demo test cover check fix docs bench redteam scope lock clean
.DEFAULT_GOAL := help

help:
	@echo "make demo   run the main job end to end on an embedded GitHub and a scripted model"
	@echo "make test   run every test this machine can run"
	@echo "make check  lint, types, import contracts, workflows, schemas, pages and licences"
	@echo "make fix    format and fix what can be fixed by itself"
	@echo "make docs   write docs/configuration.md from the schema and action.yml"
	@echo "make bench  print the cost table"
	@echo "make cover  see that tests reach every branch of the decisions on egress and people"
	@echo "make scope  see what a run refuses that asks for more than its scope"
	@echo "make redteam  play the cases of a fully hostile model"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Airlock needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 demo"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "No venv module: install it (Debian: apt install python3-venv)."; rm -rf $(VENV); exit 1; }

$(READY_RUN): requirements/runtime.lock | $(VENV)/bin/python
	$(PY) -m pip install --quiet --require-hashes -r requirements/runtime.lock
	@$(PY) -c 'import pathlib,site; pathlib.Path(site.getsitepackages()[0], "airlock.pth").write_text("$(CURDIR)\n")'
	@touch $@

$(READY): requirements/dev.lock | $(READY_RUN)
	$(PY) -m pip install --quiet --require-hashes -r requirements/dev.lock
	@touch $@

demo: $(READY_RUN)
	@$(PY) -m agent demo

test: $(READY)
	@$(PY) -m pytest $(PYTEST_ARGS)

check: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/zizmor --quiet --offline --persona auditor action.yml .github
	$(VENV)/bin/hadolint Dockerfile tests/e2e/runner.Dockerfile
	$(VENV)/bin/shellcheck -x action/*.sh .ci/run .ci/docker-setup
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-actions action.yml
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml
	$(VENV)/bin/check-jsonschema --quiet --check-metaschema agent/broker/config.schema.json agent/broker/transcript.schema.json
	$(PY) -m pytest -q -p no:cacheprovider -n 0 tests/unit/test_docs*.py

fix: $(READY)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

docs: $(READY)
	$(PY) -m tests.support.configuration_page

# Decisions that let something out, by their own tests, and the loop, by the conformance suite on a toy adapter alone:
# every statement and branch of them is reached.
DECISIONS := agent.broker.policy agent.broker.gate agent.broker.own_branch
cover: $(READY)
	@$(PY) -m pytest -q -p no:cacheprovider $(DECISIONS:%=--cov=%) --cov-branch --cov-report=term-missing:skip-covered \
	  --cov-fail-under=100 tests/unit/test_policy_*.py tests/unit/test_gate.py tests/unit/test_own_branch.py
	@$(PY) -m pytest -q -p no:cacheprovider --cov=agent.harness.loop --cov-branch --cov-report=term-missing:skip-covered \
	  --cov-fail-under=100 tests/conformance -k toy

scope: $(READY_RUN)
	@$(PY) -m agent scope

redteam: $(READY)
	@$(PY) -m agent redteam fixtures/redteam

bench: $(READY)
	@$(PY) -m tests.benchmarks

# Needs uv (PyPI). Locks for every supported Python at once; names no index.
lock:
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 pyproject.toml -o requirements/runtime.lock
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --extra dev pyproject.toml -o requirements/dev.lock

clean:
	rm -rf $(VENV) .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
