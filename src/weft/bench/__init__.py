"""What `weft bench` runs: the tables of the papers behind the classical methods, beside ours."""
