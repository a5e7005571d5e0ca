"""Run every benchmark, one after the other: python -m benchmarks [--quick] [name ...]"""

import inspect
import pkgutil
import sys
from importlib import import_module

import benchmarks


def main(arguments: list[str]) -> None:
    quick = "--quick" in arguments
    wanted = [name for name in arguments if not name.startswith("-")]
    names = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__"]
    for name in wanted or names:
        module = import_module(f"benchmarks.{name}")
        run = getattr(module, "main", None)
        if run is None:
            continue
        print(f"\n{name}: {(module.__doc__ or '').splitlines()[0]}\n", flush=True)
        # a benchmark that has a short form says so by its parameter
        if "quick" in inspect.signature(run).parameters:
            run(quick=quick)
        else:
            run()


if __name__ == "__main__":
    main(sys.argv[1:])
