# Every task of the project, from a fresh checkout on: Python 3.11 or newer, make and git are all it needs.

PYTHON ?= python3
BIN := .venv/bin
# A test process for each processor, but two at least and four at most: some tests measure time.
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ $$n -lt 2 ] && n=2; [ $$n -gt 4 ] && n=4; echo $$n)

.PHONY: help setup test night check format bench lock sbom clean

help: ## Show these lines.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s%s\n", $$1, $$2 }' Makefile

setup: .venv/.stamp ## Make .venv with the package and its tools.

.venv/.stamp: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	    "Nightdesk needs Python 3.11 or newer; this is %d.%d. Run: make setup PYTHON=python3.13" % sys.version_info[:2])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	$(BIN)/python -m pip check --quiet --disable-pip-version-check
	@touch $@

test: setup ## Run every test.
	$(BIN)/python -m pytest -n $(JOBS)

night: setup ## Run the main job: for now a hundred drills in a house of their own.
	$(BIN)/nightdesk drill

check: setup ## Format, lint, types, import contracts, security, secrets, tests.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/bandit --quiet --recursive --severity-level medium src bench
	git ls-files -co --exclude-standard -z | xargs -0 $(BIN)/detect-secrets-hook --no-verify --exclude-files '^requirements/'
	$(BIN)/python -m pytest -n $(JOBS)

format: setup ## Format the code and mend what ruff can mend.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## Measure, and print the table of the README.
	$(BIN)/python -m bench

# The machine's own pip settings are left out, so that the hashes are those of the public registry, for every platform.
COMPILE = env -u PIP_INDEX_URL -u PIP_EXTRA_INDEX_URL -u PIP_FIND_LINKS PIP_CONFIG_FILE=/dev/null \
    CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --no-config --upgrade --generate-hashes --strip-extras \
    --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links
DEV_GROUP = import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"], sep="\n")

lock: setup ## Pin the newest versions that pyproject.toml allows, with hashes.
	$(COMPILE) --output-file requirements/base.txt pyproject.toml
	$(BIN)/python -c '$(DEV_GROUP)' | $(COMPILE) --constraint requirements/base.txt --output-file requirements/dev.txt pyproject.toml -

sbom: setup ## List what the product is made of, as dist/sbom.json (CycloneDX).
	@mkdir -p dist
	$(BIN)/cyclonedx-py requirements --output-reproducible --pyproject pyproject.toml --output-file dist/sbom.json requirements/base.txt

clean: ## Remove what can be made again.
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .schemathesis
	find . -name __pycache__ -prune -exec rm -rf {} +
