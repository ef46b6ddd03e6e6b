"""Claims and volumes, as far as several nodes or pods share them."""
