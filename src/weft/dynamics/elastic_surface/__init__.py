"""The elastic surface of Terzopoulos et al. 1987 on rectangular grids."""
