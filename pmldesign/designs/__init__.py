"""How strategies are designed: what the searches begin from."""
