"""What the server does to an object on its way into the store, and how objects are bound, evicted and deleted."""
