"""Partner systems: their references, orders and translators. The engine knows nothing of them."""
