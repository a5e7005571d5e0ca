"""What is timed, and against what; `python -m benchmarks` runs it all."""
