"""The live, the embedded and the simulated driver, and what they share: writers, timers, calls of extenders."""
