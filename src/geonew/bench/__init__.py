"""The benchmark campaign: every model on every family, at equal budgets, as a list of cells."""
