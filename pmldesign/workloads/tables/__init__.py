"""Tables over attributes: marginals, and tables whose attributes have queries of their own."""
