# The Python to make .venv with: left empty, the one it was made with before, or else python3.
# If that Python can import torch (a vendor's build, say), its torch is used.
PYTHON ?=
# How many processes run the kit's own tests.
WORKERS ?= 2
# What `make chapter` checks.
CHAPTER ?=

py = .venv/bin/python

.PHONY: help verify test chapter setup clean

help:
	@echo 'make verify   check every claim and write a report to report/'
	@echo 'make test     lint, type-check, check the claims, and test the kit itself'
	@echo 'make chapter CHAPTER=storage   check one chapter, its wrong implementations included, in seconds'
	@echo 'make setup    only make .venv, which the two above do when needed'
	@echo 'make clean    remove .venv, the report and every cache'
	@echo
	@echo 'PYTHON=/path/to/python   what to make .venv with (python3); its torch is used if it has one'
	@echo 'WORKERS=2                how many processes run the tests of the kit'

setup:
	@PYTHON='$(PYTHON)' bash .ci/setup

verify: setup
	@rm -f report/claims.json report/junit.xml # so that an old report never passes for this run's
	@status=0; $(py) -m pytest --benchmark-enable --spec-report=report || status=$$?; \
	if [ -f report/claims.json ]; \
	then echo 'The report: report/claims.json (each claim), report/junit.xml (for a CI server)'; \
	else echo 'No report was written: see above'; fi; \
	exit $$status

test: setup
	$(py) -m ruff check
	$(py) -m ruff format --check
	$(py) -m mypy
	$(py) -m pytest
	$(py) -m pytest --assert=rewrite tests/kit -n $(WORKERS)

chapter: setup
	@$(py) -m tests.kit.chapter '$(CHAPTER)' $(WORKERS)

clean:
	rm -rf .venv report build *.egg-info .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
