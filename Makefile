# Every target sets itself up: the first one makes .venv and installs what it needs.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

.PHONY: blender-addon demo test test-long lint bench docs clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# one stamp a set of extras, remade when pyproject.toml changes
$(VENV)/.installed-%: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[$(subst +,$(comma),$*)]'
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
	$(BIN)/mkdocs build --strict

# a zip for Blender's Preferences, Add-ons, Install from Disk
blender-addon:
	$(PYTHON) integrations/blender/make_zip.py dist/weft_cloth.zip

clean:
	rm -rf $(VENV) out site dist
