# Every target sets itself up: the first one makes .venv and installs what it needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# modules are compiled when they are first used, not all of them now
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable

.PHONY: blender-addon demo gallery test test-long lint bench docs clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# one stamp a set of extras, remade when pyproject.toml changes
$(VENV)/.installed-%: pyproject.toml $(BIN)/python
	$(INSTALL) '.[$(subst +,$(comma),$*)]'
	touch $@
comma := ,

demo: $(VENV)/.installed-all
	$(BIN)/weft demo --out out

test: $(VENV)/.installed-all+test
	$(BIN)/python -m pytest

test-long: $(VENV)/.installed-all+test
	$(BIN)/python -m pytest -m long

lint: $(VENV)/.installed-all+test+dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed-all+test
	$(BIN)/python -m benchmarks

docs: $(VENV)/.installed-all+dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# simulates all examples; takes a while
gallery: $(VENV)/.installed-all+beauty
	$(BIN)/python examples/gallery.py

# a zip for Blender's Preferences, Add-ons, Install from Disk
blender-addon:
	$(PYTHON) integrations/blender/make_zip.py dist/weft_cloth.zip

clean:
	rm -rf $(VENV) out site dist
