"""Position-based cloth (XPBD, Macklin et al. 2016): small substeps, one sweep of Gauss-Seidel each."""
