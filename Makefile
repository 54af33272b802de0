.DEFAULT_GOAL := help
export NO_MKDOCS_2_WARNING := 1
export PYTHONDONTWRITEBYTECODE := # else every process of the tests compiles each module again
.PHONY: setup demo test pages screenshots proofs faults soak bench scaling validator generator deployment promtool pgbouncer lint check lock reference release docs clean help

EXTRAS = $(shell .venv/bin/python -c \
	'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"])')

# An environment of tools, of the packages that its lock names.
define tools
@test -x .cache/$(1)-venv/bin/python || .venv/bin/uv venv --quiet --python .venv/bin/python .cache/$(1)-venv
@.venv/bin/uv pip sync --quiet --system-certs --require-hashes --python .cache/$(1)-venv/bin/python scripts/tools/$(1).lock
endef
COMPILE = .venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" --system-certs --quiet $(ARGS)

setup: ## Make .venv from the lock, and find or install PostgreSQL with PostGIS
	@scripts/setup

demo: setup ## Run the main job on the embedded default
	@.venv/bin/anabranch demo

test: ## Run the tests, those of the page in Chromium; ARGS="-k name" picks some
	@scripts/setup browser
	@! command -v npm >/dev/null || scripts/pages --tools
	.venv/bin/pytest $(ARGS)

pages: ## Compile the scripts of the web pages, which are committed; needs npm
	@scripts/pages

screenshots: setup ## Take pictures of every page with real data, into .cache/screenshots; takes some minutes
	@scripts/setup browser
	.venv/bin/python -m scripts.screenshots

bench: setup ## Measure the engine beside a bare loop and two peers; takes minutes
	$(call tools,bench)
	.venv/bin/python -m benchmarks.run
	.venv/bin/python -m benchmarks.standing

FINISHED ?= 10000000
scaling: setup ## Measure 1, 2 and 4 workers on two homes, and what FINISHED tasks in the tables cost; may take an hour
	.venv/bin/python -m benchmarks.scaling --finished $(FINISHED)

validator: setup ## Install stac-api-validator in an environment of its own; its tests are among the long proofs
	$(call tools,validator)

generator: setup ## Install openapi-python-client in an environment of its own; its test is among the long proofs
	$(call tools,generator)

deployment: setup ## Install what checks deploy/ in an environment of its own; those tests are among the long proofs
	$(call tools,deployment)
	@mkdir -p .cache/deployment-npm && cp scripts/tools/deployment/*.json .cache/deployment-npm && \
		npm install --ignore-scripts --no-save --silent --no-audit --no-fund --prefix .cache/deployment-npm # `ci` wants all platforms

promtool: ## Unpack promtool of Debian's package of Prometheus; its tests are among the long proofs
	@mkdir -p .cache/prometheus && cd .cache/prometheus && rm -f *.deb && \
		apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb . && rm *.deb

pgbouncer: ## Unpack PgBouncer of Debian's package, with the libraries that it needs; its tests are skipped without
	@mkdir -p .cache/pgbouncer && cd .cache/pgbouncer && rm -f *.deb && \
		apt-get download -qq pgbouncer $$(apt-cache depends pgbouncer | grep -oE 'lib(event|c-ares|cares)[^ ]*$$') && \
		for package in *.deb; do dpkg-deb -x "$$package" .; done && rm *.deb

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

lock: setup ## Remake all lock files; ARGS=--upgrade takes newer versions
	$(COMPILE) $(EXTRAS:%=--extra %) pyproject.toml -o requirements.lock
	$(COMPILE) --no-annotate --extra all --constraint requirements.lock pyproject.toml -o deploy/image/requirements.lock
	@set -ex; for tools in scripts/tools/*.in; do $(COMPILE) --no-annotate $$tools -o $${tools%.in}.lock; done
	@set -ex; for tools in scripts/tools/*/; do npm install --prefix $$tools --package-lock-only --ignore-scripts \
		--omit-lockfile-registry-resolved --no-audit --no-fund; done

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
