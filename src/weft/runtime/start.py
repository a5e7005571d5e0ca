"""Start Warp once, quietly."""

import os
import sys
import tempfile

import warp as wp

# printed by Warp's native code on every machine without an NVIDIA driver; weft's default is the CPU
_NO_DRIVER = "Could not find or load the NVIDIA CUDA driver"


def start_warp() -> None:
    """Initialise Warp without its greeting and without the warning that there is no NVIDIA driver."""
    wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            wp.init()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            said.seek(0)
            for line in said.read().decode(errors="replace").splitlines():
                if _NO_DRIVER not in line:
                    print(line, file=sys.stderr)
