"""What releases cost: budgets, plans, and the ledger that counts."""
