# Few targets; continuous integration calls only these. `make up` and `make test` need Python 3.11+ and nothing else.
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv
# An advertisement of the docs theme, not about these docs.
export NO_MKDOCS_2_WARNING := 1

.PHONY: up web reference test bare lint bench image manifests release-check kube-assets recordings e2e e2e-system e2e-versions extender-rounds fault-rounds affinity-trials switch-trials soak scale docs clean

# The console on the embedded lab; it prints its address.
up: .venv/.base
	@$(BIN)/numaware up

# Build the console's page anew from web/ and from the API's description; only those who change it need Node.js.
web: .venv/.dev
	@$(BIN)/python scripts/page_types.py
	@scripts/page lint
	@scripts/page build

# The pages of docs/reference, made anew from the code that they describe.
reference: .venv/.dev
	@$(BIN)/python scripts/reference.py

# Without a browser the tests that need one are skipped, except where CI=true. In the order of their names: those of pages
# and recordings, few and long, come early, and no worker is left alone with one of them at the end.
test: .venv/.dev
	@scripts/system-packages test || [ "$$CI" != true ]
	$(BIN)/pytest -n $$(nproc) --dist loadscope --no-loadscope-reorder
	@scripts/page test

# Both of the above on a bare Debian, as root and as somebody else, ROUNDS times; USERS="root" or "someone" for one of them.
bare:
	@scripts/system-packages bare
	@$(PYTHON) scripts/bare_root.py --rounds $(or $(ROUNDS),1) $(addprefix --user=,$(USERS))

lint: .venv/.dev
	$(UV) lock --check --quiet
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/mkdocs build --strict --quiet
	@$(BIN)/python scripts/page_types.py --check
	@$(BIN)/python scripts/reference.py --check
	@scripts/page lint

bench: .venv/.dev kube-assets
	@scripts/system-packages bench
	$(BIN)/pytest benchmarks

# The container image, without an engine or a base image: an OCI archive, its digest and what is in it, in dist/image.
image: .venv/.dev
	@$(BIN)/python scripts/image.py

# The chart, rendered by Helm into what `numaware install` applies; after a change to deploy/helm, deploy/rbac or deploy/crd.
manifests: .venv/.dev
	@$(BIN)/python scripts/manifests.py

# Everything that a release consists of, made, signed and checked in dist/release; KEY=cosign.key signs with a key of your own,
# URL=https://... is where krew will find it.
release-check: .venv/.dev
	@$(BIN)/python scripts/release_check.py $(addprefix --key=,$(KEY)) $(addprefix --url=,$(URL))

# The real Kubernetes programs that e2e and bench run: taken from KUBEBUILDER_ASSETS, or built with Go once and kept.
kube-assets:
	@scripts/kube-assets/build

# What kubelets of our own recorder said, and what CP-SAT proves of talking pods (tests/recorders), anew; needs Go, and minutes.
recordings: .venv/.dev
	@tests/recorders/pod_level/record
	@tests/recorders/partition/record

# What a user installs, tried as a user would, and everything that needs real components.
e2e: .venv/.dev kube-assets
	@scripts/system-packages e2e
	$(BIN)/pytest tests/e2e -m e2e

# The whole system as the chart installs it, on real nodes: from a StatefulSet that kubelets refuse again and again to its end.
e2e-system: .venv/.dev kube-assets
	@scripts/system-packages e2e
	@scripts/system-packages test
	$(BIN)/pytest tests/e2e/test_system.py -m long --exitfirst

BESIDE := tests/e2e/test_kubelet_twin.py tests/e2e/test_restart_safe.py
# Kubelets of other releases beside the twin, and a cluster of three; their programs are built on the first run.
e2e-versions: .venv/.dev kube-assets
	@scripts/kube-assets/build v1.34 v1.36 v1.37
	NUMAWARE_KUBELET=v1.36 NUMAWARE_RESTARTS=34 $(BIN)/pytest $(BESIDE) -m e2e -k "keep_what or published or others_stay"
	NUMAWARE_KUBELET=v1.37 NUMAWARE_RESTARTS=34 $(BIN)/pytest $(BESIDE) -m e2e -k "keep_what or published or others_stay or wanted_again"
	$(BIN)/pytest tests/e2e/test_mixed_releases.py -m long

# Ten times 460 pods at once through kube-scheduler and the extender, configured as our own command prints it.
extender-rounds: .venv/.dev kube-assets
	NUMAWARE_ROUNDS=$(or $(ROUNDS),10) $(BIN)/pytest tests/e2e/test_extender_as_printed.py -m e2e

# Ten leaders killed in mid-work, and every watch cut ten times beside a foreign binder.
fault-rounds: .venv/.dev kube-assets
	NUMAWARE_ROUNDS=$(or $(ROUNDS),10) $(BIN)/pytest tests/e2e/test_scheduler_faults.py -m e2e -k "one_after_the_other or foreign"

# Talking pods and their memory on a kernel with several NUMA nodes (in QEMU), and five hundred containers of a real containerd.
affinity-trials: .venv/.dev
	@scripts/system-packages e2e
	$(BIN)/pytest tests/e2e/test_affinity_machine.py tests/e2e/test_affinity_many.py -m long -s

# A kubelet's switch made to fail and killed at every step, on a real kubelet and API server.
switch-trials: .venv/.dev kube-assets
	@scripts/system-packages e2e
	$(BIN)/pytest tests/e2e/test_kubelet_trials.py -m long

# Churn and random kills of every program beside a real API server and kubelet; numbers and curves go to dist/soak.
soak: .venv/.dev kube-assets
	@scripts/system-packages e2e
	NUMAWARE_MINUTES=$(or $(MINUTES),30) $(BIN)/pytest tests/e2e/test_soak.py -m long

# What docs/scale.md tells: hollow nodes on a real API server, and a fleet in the lab; numbers and curves go to dist/scale.
scale: .venv/.dev kube-assets
	$(if $(SIZES),NUMAWARE_SIZES=$(SIZES)) $(BIN)/pytest benchmarks/test_scale.py -m long

docs: .venv/.dev
	$(BIN)/mkdocs serve

clean:
	rm -rf .venv dist site

# The virtual environment, from the lock file. A run-time install never removes what the developer install added.
.venv/.base: $(UV) pyproject.toml uv.lock
	@echo "installing what numaware needs into .venv, from uv.lock"
	@$(UV) sync --quiet --frozen --no-dev --inexact
	@touch $@

.venv/.dev: $(UV) pyproject.toml uv.lock
	@$(UV) sync --quiet --frozen --inexact
	@touch $@ .venv/.base

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "numaware needs Python 3.11 or newer; \`$(PYTHON)\` is $$($(PYTHON) --version 2>/dev/null || echo missing). Try: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "making a virtual environment in .venv, once"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.7
